import { constants as fsConstants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { systemClock } from '../../../../src/domain/clock.ts'
import { silentLogger } from '../../../../src/domain/logger.ts'
import { fixedDirectory } from '../../../../src/drive/virtual/virtual-entry.ts'
import { VirtualHome } from '../../../../src/drive/virtual/virtual-home.ts'
import * as wire from '../../../../src/kernel/dev-fuse/structures.ts'
import type { EndedOperation, OperationTracer } from '../../../../src/kernel/operation-watch.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'
import { SyntheticKernel, texts, type Told } from '../../../support/synthetic-kernel.ts'

const ROOT = 1

let dir: string
let service: TestService
let home: DriveInProcess
let kernel: SyntheticKernel
/** Each that ended, with the thread that had asked; without what differs from time to time. */
let traced: (Omit<EndedOperation, 'tookMs'> & { thread: number | undefined })[]
let isTraced: boolean

const tracer: OperationTracer = {
  began: (thread) => (ended) => {
    const { tookMs, ...told } = ended
    expect(tookMs).toBeGreaterThanOrEqual(0)
    traced.push({ ...told, thread })
  },
}

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-trace-'))
  service = await TestService.start(join(dir, 'service'))
  const { token } = service
  const { url } = service.proxy
  home = await DriveInProcess.open({ url, token, dir: join(dir, 'state'), writeBack: true })
  traced = []
  isTraced = true
  const watch = {
    ended: () => undefined,
    get tracer() {
      return isTraced ? tracer : undefined
    },
  }
  kernel = await SyntheticKernel.start({ drive: home.drive, log: silentLogger, watch })
})
afterEach(async () => {
  await home.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

async function lookup(name: string, parent = ROOT): Promise<number> {
  const { body } = await kernel.ask('LOOKUP', parent, texts(name))
  return body.length === 0 ? 0 : wire.ENTRY_OUT.decode(body).node
}

function makeFolder(name: string, parent = ROOT): Promise<Told> {
  return kernel.ask('MKDIR', parent, wire.MKDIR_IN.encode({ mode: 0o755, umask: 0 }), texts(name))
}

async function openMade(name: string, parent = ROOT) {
  const asked = { flags: fsConstants.O_RDWR, mode: 0o644, umask: 0, openFlags: 0 }
  const { body } = await kernel.ask('CREATE', parent, wire.CREATE_IN.encode(asked), texts(name))
  const { handle } = wire.OPEN_OUT.decode(body, wire.ENTRY_OUT.size)
  return { node: wire.ENTRY_OUT.decode(body).node, handle }
}

it('a trace tells paths, ranges, bytes and errors of what programs do', async () => {
  await makeFolder('docs')
  const docs = await lookup('docs')
  const { node, handle } = await openMade('a.txt', docs)
  const range = { handle, offset: 2, size: 3, flags: 0 }
  await kernel.ask('WRITE', node, wire.WRITE_IN.encode({ ...range, writeFlags: 0 }), texts('hi'))
  const read = wire.READ_IN.encode({ ...range, offset: 0, size: 4096, readFlags: 0 })
  await kernel.ask('READ', node, read)
  await lookup('missing', docs)
  await kernel.ask('READ', node, wire.READ_IN.encode({ ...range, handle: 99, readFlags: 0 }))
  expect(traced.splice(0)).toMatchObject([
    { operation: 'mkdir', path: '/docs', error: undefined, thread: 1 },
    { operation: 'lookup', path: '/docs' },
    { operation: 'create', path: '/docs/a.txt', bytes: undefined },
    { operation: 'write', path: '/docs/a.txt', offset: 2, size: 3, bytes: 3 },
    { operation: 'read', path: '/docs/a.txt', offset: 0, size: 4096, bytes: 5 },
    { operation: 'lookup', path: '/docs/missing', error: 'ENOENT' },
    { operation: 'read', error: 'EBADF', bytes: undefined },
  ])
})

it('a trace tells both names of a rename, a new length, and what was removed by the path that it had', async () => {
  await makeFolder('docs')
  const docs = await lookup('docs')
  const { node, handle } = await openMade('a.txt')
  const nothing = { atime: 0, mtime: 0, atimeNs: 0, mtimeNs: 0, mode: 0, uid: 0, gid: 0 }
  const cut = wire.SETATTR_IN.encode({ ...nothing, valid: 1 << 3, handle, size: 9 })
  const keep = wire.SETATTR_IN.encode({ ...nothing, valid: 1, handle, size: 0, mode: 0o600 })
  const into = wire.RENAME_IN.encode({ newParent: docs })
  traced = []
  await kernel.ask('SETATTR', node, cut)
  await kernel.ask('SETATTR', node, keep)
  await kernel.ask('RENAME', ROOT, into, texts('a.txt', 'b.txt'))
  await kernel.ask('UNLINK', docs, texts('b.txt'))
  const out = { handle, flags: 0, releaseFlags: 0 }
  await kernel.ask('RELEASE', node, wire.RELEASE_IN.encode(out))
  expect(traced).toMatchObject([
    { operation: 'setattr', path: '/a.txt', size: 9 },
    { operation: 'setattr', path: '/a.txt' },
    { operation: 'rename', path: '/a.txt', to: '/docs/b.txt' },
    { operation: 'unlink', path: '/docs/b.txt', to: undefined },
    { operation: 'release' },
  ])
  expect(traced[1]).not.toHaveProperty('size')
})

it('a trace tells paths of what the drive makes up', async () => {
  home.drive.attach('.made-up', (nodes) => {
    const inner = fixedDirectory(new Map([['inner', fixedDirectory(new Map())]]))
    return new VirtualHome({ nodes, clock: systemClock }, inner)
  })
  const inner = await lookup('inner', await lookup('.made-up'))
  await kernel.ask('GETATTR', inner, wire.GETATTR_IN.encode({ flags: 0, handle: 0 }))
  expect(traced.map(({ operation, path }) => `${operation} ${path}`)).toEqual([
    'lookup /.made-up',
    'lookup /.made-up/inner',
    'getattr /.made-up/inner',
  ])
})

it('a trace does no harm to a message that cannot be read, and has no names that are not told', async () => {
  expect((await kernel.ask('READ', ROOT, Buffer.alloc(3))).error).toBe('EIO')
  expect((await kernel.ask('RENAME', ROOT, Buffer.alloc(0))).error).toBe('EIO')
  expect((await kernel.ask('LOOKUP', ROOT, Buffer.from([0xff, 0]))).error).toBe('EILSEQ')
  await kernel.ask('GETATTR', 77, wire.GETATTR_IN.encode({ flags: 0, handle: 0 }))
  expect(traced).toMatchObject([
    { operation: 'read', path: '/', error: 'EIO' },
    { operation: 'rename', path: '/', error: 'EIO' },
    { operation: 'lookup', path: '/', error: 'EILSEQ' },
    { operation: 'getattr', path: undefined, error: 'ESTALE' },
  ])
})

it('nothing is found out about operations while no trace runs', async () => {
  isTraced = false
  await lookup('missing')
  isTraced = true
  await lookup('missing')
  expect(traced).toHaveLength(1)
})
