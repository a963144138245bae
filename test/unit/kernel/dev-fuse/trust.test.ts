import { constants as fsConstants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../../src/domain/clock.ts'
import { deferred } from '../../../../src/domain/deferred.ts'
import { silentLogger } from '../../../../src/domain/logger.ts'
import type { FileRecordWire } from '../../../../src/service/wire.ts'
import * as wire from '../../../../src/kernel/dev-fuse/structures.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'
import { OLD_KERNEL, SyntheticKernel, texts, type Told } from '../../../support/synthetic-kernel.ts'
import { turns } from '../../../support/turns.ts'

const ROOT = 1
const INVAL_INODE = 2
const INVAL_ENTRY = 3
const EXPIRE_ONLY = 1
const KEEP_CACHE = 2
const CACHE_DIR = 8
const MODE = 1
const NOTHING_SET = { handle: 0, size: 0, atime: 0, mtime: 0, atimeNs: 0, mtimeNs: 0 }
const MINUTE_S = 60
const LISTING_TTL_MS = 60_000

let dir: string
let service: TestService
let home: DriveInProcess
/** Of another machine. */
let other: DriveInProcess
let kernel: SyntheticKernel
/** What the service lists beside. */
let extra: readonly FileRecordWire[]
/** How far the clock of the drive is ahead, in ms. */
let aheadMs: number
const clock = { ...systemClock, now: () => systemClock.now() + aheadMs }

beforeEach(async () => {
  aheadMs = 0
  dir = mkdtempSync(join(tmpdir(), 'bagfs-trust-'))
  extra = []
  service = await TestService.start(join(dir, 'service'), { extraRecords: () => extra })
  other = await openDrive({ listingTtlMs: 1 })
  await begin()
})
afterEach(async () => {
  await home.drop()
  await other.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

function openDrive(settings: { readonly listingTtlMs: number }): Promise<DriveInProcess> {
  const { url } = service.proxy
  const stateDir = mkdtempSync(join(dir, 'state-'))
  const place = { url, token: service.token, dir: stateDir, writeBack: true }
  return DriveInProcess.open({ ...place, settings, clock })
}

async function begin(version?: typeof OLD_KERNEL, listingTtlMs = LISTING_TTL_MS): Promise<void> {
  home = await openDrive({ listingTtlMs })
  const deps = { drive: home.drive, log: silentLogger, clock }
  kernel = await SyntheticKernel.start({ ...deps, version })
}

/** Begins anew with a clock whose waits end when the test runs them; returns them. */
async function beginWithoutTime(): Promise<readonly (() => void)[]> {
  const later: (() => void)[] = []
  const after = (_ms: number, task: () => void) => {
    later.push(task)
    return () => undefined
  }
  kernel = await SyntheticKernel.start({
    drive: home.drive,
    log: silentLogger,
    clock: { ...clock, after },
  })
  return later
}

/** The other machine has changed something, and the drive has asked. */
async function elsewhere(change: () => Promise<void>): Promise<void> {
  await change()
  await other.drain()
  await home.drive.commands.refresh()
}

const lookup = async (name: string, parent = ROOT) => {
  const { error, body } = await kernel.ask('LOOKUP', parent, texts(name))
  expect(error).toBeUndefined()
  return wire.ENTRY_OUT.decode(body)
}
const open = async (node: number, flags = 0) => {
  const { body } = await kernel.ask('OPEN', node, wire.OPEN_IN.encode({ flags, openFlags: 0 }))
  return wire.OPEN_OUT.decode(body)
}
const openDirectory = async (node: number) => {
  const { body } = await kernel.ask(
    'OPENDIR',
    node,
    wire.OPEN_IN.encode({ flags: 0, openFlags: 0 }),
  )
  return wire.OPEN_OUT.decode(body)
}
/** As the kernel does: the first page with what the names lead to, and more of them where a program asks for that. */
async function readNames(node: number, handle: number, isPlus = true): Promise<void> {
  const asked = { handle, offset: 0, size: 4096, readFlags: 0, flags: 0 }
  await kernel.ask('READDIRPLUS', node, wire.READ_IN.encode(asked))
  const next = wire.READ_IN.encode({ ...asked, offset: 3 })
  await kernel.ask(isPlus ? 'READDIRPLUS' : 'READDIR', node, next)
}
async function closeDirectory(node: number, handle: number): Promise<void> {
  const asked = wire.RELEASE_IN.encode({ handle, flags: 0, releaseFlags: 0 })
  await kernel.ask('RELEASEDIR', node, asked)
}
async function read(node: number, isPlus = true): Promise<void> {
  const { handle } = await openDirectory(node)
  await readNames(node, handle, isPlus)
  await closeDirectory(node, handle)
}
const release = (node: number, handle: number): Promise<Told> =>
  kernel.ask('RELEASE', node, wire.RELEASE_IN.encode({ handle, flags: 0, releaseFlags: 0 }))
const create = async (name: string, parent: number) => {
  const how = { flags: fsConstants.O_RDWR, mode: 0o100644, umask: 0o22, openFlags: 0 }
  const { body } = await kernel.ask('CREATE', parent, wire.CREATE_IN.encode(how), texts(name))
  const { handle } = wire.OPEN_OUT.decode(body, wire.ENTRY_OUT.size)
  return { node: wire.ENTRY_OUT.decode(body).node, handle }
}
const write = async (node: number, handle: number, text: string, offset: number, flags = 0) => {
  const asked = { handle, offset, size: text.length, writeFlags: 0, flags }
  const told = await kernel.ask('WRITE', node, wire.WRITE_IN.encode(asked), Buffer.from(text))
  expect(told.error).toBeUndefined()
}
const chmod = async (node: number, mode: number): Promise<void> => {
  const asked = { ...NOTHING_SET, valid: MODE, mode, uid: 0, gid: 0 }
  expect((await kernel.ask('SETATTR', node, wire.SETATTR_IN.encode(asked))).error).toBeUndefined()
}
const statError = async (node: number): Promise<string | undefined> => {
  const asked = wire.GETATTR_IN.encode({ flags: 0, handle: 0 })
  return (await kernel.ask('GETATTR', node, asked)).error
}
/** What has changed so far was looked at. */
function settled(): Promise<void> {
  return turns(5)
}

function forgottenNodes(): readonly number[] {
  const told = kernel.notices.filter(({ code }) => code === INVAL_INODE)
  return told.map(({ body }) => wire.NOTIFY_INVAL_INODE.decode(body).node)
}
function forgottenNames() {
  const told = kernel.notices.filter(({ code }) => code === INVAL_ENTRY)
  return told.map(({ body }) => {
    const { parent, nameLength, flags } = wire.NOTIFY_INVAL_ENTRY.decode(body)
    const start = wire.NOTIFY_INVAL_ENTRY.size
    return { parent, flags, name: body.toString('utf8', start, start + nameLength) }
  })
}

describe('what the kernel may go by without asking', () => {
  it('is told for minutes, and taken back when another machine changes it', async () => {
    await elsewhere(() => other.write('f', 'one'))
    const { node, entryValid, attrValid } = await lookup('f')
    expect(entryValid).toBeGreaterThanOrEqual(MINUTE_S)
    expect(attrValid).toBeGreaterThanOrEqual(MINUTE_S)
    await release(node, (await open(node)).handle)
    await elsewhere(() => other.write('f', 'two'))
    await expect.poll(forgottenNodes).toContain(node)
    const { handle, flags } = await open(node)
    expect(flags & KEEP_CACHE).toBe(0)
    await release(node, handle)
  })

  it('ends with the name: the kernel is made to look for it, by no lock that a killed drive would leave', async () => {
    await elsewhere(() => other.write('f', 'one'))
    const { node } = await lookup('f')
    expect(await statError(node)).toBeUndefined()
    kernel.notices.length = 0
    await elsewhere(() => other.remove('f'))
    await expect.poll(forgottenNodes).toContain(node)
    expect(await statError(node)).toBe('ESTALE')
    expect(forgottenNames()).toEqual([])
  })

  it('tells nothing of a name that the kernel itself gives to something', async () => {
    expect((await lookup('made')).node).toBe(0)
    const { node, handle } = await create('made', ROOT)
    await release(node, handle)
    expect((await lookup('moved')).node).toBe(0)
    const moved = wire.RENAME_IN.encode({ newParent: ROOT })
    await kernel.ask('RENAME', ROOT, moved, texts('made', 'moved'))
    await home.drain()
    await home.drive.commands.refresh()
    await settled()
    expect(forgottenNames()).toEqual([])
    expect(await statError(node)).toBeUndefined()
  })

  it.each([
    ['told of a change once more a moment later, as it may take up an answer late', false],
    ['not told once more while a program that has opened the file asks for its size', true],
  ])('is %s', async (_title, isOpen) => {
    const later = await beginWithoutTime()
    await elsewhere(() => other.write('f', 'one'))
    const { node } = await lookup('f')
    await elsewhere(() => other.write('f', 'longer'))
    await expect.poll(forgottenNodes).toContain(node)
    const handle = isOpen ? (await open(node)).handle : undefined
    kernel.notices.length = 0
    expect(later.length).toBeGreaterThan(0)
    for (const task of later) task()
    expect(await statError(ROOT)).toBeUndefined()
    const again = forgottenNodes()
    if (handle !== undefined) await release(node, handle)
    expect(again).toHaveLength(isOpen ? 0 : later.length)
  })

  it('has heard each notice of a file when the file is open', async () => {
    await elsewhere(() => other.write('f', 'one'))
    const { node } = await lookup('f')
    const mayHear = deferred()
    kernel.hearing = mayHear.promise
    await elsewhere(() => other.write('f', 'longer'))
    await expect.poll(forgottenNodes).toContain(node)
    kernel.hearing = Promise.resolve()
    const asked = deferred()
    const getAttributes = home.drive.getAttributes.bind(home.drive)
    home.drive.getAttributes = (...what) => getAttributes(...what).finally(asked.resolve)
    let isOpen = false
    const opening = open(node).finally(() => {
      isOpen = true
    })
    await asked.promise
    await new Promise(setImmediate)
    const wasOpen = isOpen
    mayHear.resolve()
    await release(node, (await opening).handle)
    expect(wasOpen).toBe(false)
  })

  it('is taken back for a name only once no request waits that has its directory', async () => {
    await elsewhere(() => other.write('later', 'one'))
    const { node } = await lookup('later')
    const { handle } = await open(node)
    const mayMake = deferred()
    const make = home.drive.makeDirectory.bind(home.drive)
    home.drive.makeDirectory = async (...asked) => {
      await mayMake.promise
      await make(...asked)
    }
    const made = makeFolder('d')
    await elsewhere(() => other.write('later', 'other'))
    await settled()
    expect(forgottenNames()).toEqual([])
    mayMake.resolve()
    await made
    expect(forgottenNames()).toEqual([{ parent: ROOT, name: 'later', flags: EXPIRE_ONLY }])
    await release(node, handle)
  })

  it.each([
    { listingTtlMs: LISTING_TTL_MS, trustMs: 1_000 },
    { listingTtlMs: 1_000, trustMs: 250 },
  ])(
    'is that a name is absent for $trustMs ms only, since the kernel is not told when it is not ($listingTtlMs)',
    async ({ listingTtlMs, trustMs }) => {
      await home.drop()
      await begin(undefined, listingTtlMs)
      const { node, entryValid, entryValidNs } = await lookup('later')
      expect(node).toBe(0)
      expect(entryValid * 1_000 + entryValidNs / 1e6).toBe(trustMs)
      await elsewhere(() => other.write('later', 'x'))
      await settled()
      expect(forgottenNames()).toEqual([])
    },
  )

  it('leads no name to an open file that stands aside', async () => {
    await elsewhere(() => other.write('f', 'one'))
    const { node } = await lookup('f')
    const { handle } = await open(node)
    await elsewhere(() => other.write('f', 'other'))
    const gone = { parent: ROOT, name: 'f', flags: EXPIRE_ONLY }
    await expect.poll(forgottenNames).toContainEqual(gone)
    expect((await lookup('f')).node).not.toBe(node)
    await release(node, handle)
  })

  it('changes with another name of the same bag before the change is answered', async () => {
    await service.upload('a', 'same')
    extra = (await service.list()).map((record) => ({ ...record, filename: 'b' }))
    await home.drive.commands.refresh()
    const a = await lookup('a')
    const b = await lookup('b')
    expect(a.node).not.toBe(b.node)
    await settled()
    kernel.notices.length = 0
    await chmod(a.node, 0o600)
    expect(forgottenNodes()).toContain(b.node)
    expect((await lookup('b')).mode & 0o777).toBe(0o600)
  })

  it('keeps the names of a directory until one comes', async () => {
    await read(ROOT)
    const { flags } = await openDirectory(ROOT)
    expect(flags).toBe(CACHE_DIR | KEEP_CACHE)
    await elsewhere(() => other.write('f', 'x'))
    await expect.poll(forgottenNodes).toContain(ROOT)
    expect((await openDirectory(ROOT)).flags).toBe(CACHE_DIR)
  })

  it.each(['the root', 'a folder'])(
    'is not the names of %s that are older than a listing may be: they are read anew',
    async (directory) => {
      const node = directory === 'the root' ? ROOT : await folderWithFile()
      await read(node)
      expect((await openDirectory(node)).flags).toBe(CACHE_DIR | KEEP_CACHE)
      aheadMs = LISTING_TTL_MS + 1
      expect((await openDirectory(node)).flags).toBe(CACHE_DIR)
    },
  )

  it('is no names without what they lead to: the kernel reads them anew, and asks for none by itself', async () => {
    await elsewhere(() => other.write('f', 'x'))
    await settled()
    await lookup('f')
    await settled()
    await read(ROOT)
    expect((await openDirectory(ROOT)).flags).toBe(CACHE_DIR | KEEP_CACHE)
    await read(ROOT, false)
    expect((await openDirectory(ROOT)).flags).toBe(CACHE_DIR)
    aheadMs = 3 * MINUTE_S * 1_000
    await home.drive.commands.refresh()
    await settled()
    await read(ROOT)
    expect((await openDirectory(ROOT)).flags).toBe(CACHE_DIR | KEEP_CACHE)
    aheadMs += 3 * MINUTE_S * 1_000
    await home.drive.commands.refresh()
    expect((await openDirectory(ROOT)).flags).toBe(CACHE_DIR)
  })

  it('is not the names of a directory in which a file is being made', async () => {
    await read(ROOT)
    expect((await openDirectory(ROOT)).flags).toBe(CACHE_DIR | KEEP_CACHE)
    const { node, handle } = await create('new', ROOT)
    await settled()
    expect((await openDirectory(ROOT)).flags).toBe(CACHE_DIR)
    await release(node, handle)
  })

  it('is no size that a slow reader may have taken from before a change: open has the kernel ask for it', async () => {
    await elsewhere(() => other.write('f', 'one'))
    await settled()
    const { node } = await lookup('f')
    await elsewhere(() => other.write('f', 'longer'))
    await expect.poll(forgottenNodes).toContain(node)
    await settled()
    // It was lost on a kernel that had not made the node yet, and does so now by the answer of before.
    const before = forgottenNodes().length
    const { handle } = await open(node)
    expect(forgottenNodes().slice(before)).toContain(node)
    await release(node, handle)
  })

  it.each(['the root', 'a folder'])(
    'is no names of %s that a slow reader may have taken from before a change',
    async (directory) => {
      const node = directory === 'the root' ? ROOT : await folderWithFile()
      await lookup('f', node)
      await settled()
      const slow = await openDirectory(node)
      const quick = await openDirectory(node)
      await readNames(node, slow.handle)
      const made = await create('new', node)
      await release(made.node, made.handle)
      await settled()
      // One that begins now takes no part in what the kernel keeps.
      expect((await openDirectory(node)).flags).toBe(0)
      await readNames(node, quick.handle)
      for (const { handle } of [slow, quick]) await closeDirectory(node, handle)
      expect((await openDirectory(node)).flags).toBe(CACHE_DIR)
      await read(node)
      expect((await openDirectory(node)).flags).toBe(CACHE_DIR | KEEP_CACHE)
    },
  )

  it('is nothing of the inside of a folder that another machine has stored anew', async () => {
    const folder = await folderWithFile()
    const { node } = await lookup('f', folder)
    await read(folder)
    await elsewhere(() => other.write('d/f', 'other'))
    await expect.poll(forgottenNodes).toContain(node)
    expect(forgottenNames()).toEqual([])
    expect(await statError(node)).toBe('ESTALE')
    expect(forgottenNodes()).toContain(folder)
    expect((await openDirectory(folder)).flags & KEEP_CACHE).toBe(0)
    expect((await lookup('f', folder)).node).not.toBe(node)
  })

  it('finds what another machine puts into a folder', async () => {
    const folder = await folderWithFile()
    expect((await lookup('new', folder)).node).toBe(0)
    await elsewhere(() => other.write('d/new', 'x'))
    const { node } = await lookup('new', folder)
    const { body, error } = await kernel.ask(
      'OPEN',
      node,
      wire.OPEN_IN.encode({ flags: 0, openFlags: 0 }),
    )
    expect(error).toBeUndefined()
    await release(node, wire.OPEN_OUT.decode(body).handle)
  })

  it('follows a name that the kernel has moved itself', async () => {
    await elsewhere(() => other.write('f', 'one'))
    const { node } = await lookup('f')
    const moved = wire.RENAME_IN.encode({ newParent: ROOT })
    await kernel.ask('RENAME', ROOT, moved, texts('f', 'g'))
    await home.drain()
    await settled()
    expect(await statError(node)).toBeUndefined()
    kernel.notices.length = 0
    await elsewhere(() => other.remove('g'))
    await expect.poll(forgottenNodes).toContain(node)
    expect(await statError(node)).toBe('ESTALE')
  })

  it('ends without EXPIRE_ONLY where the kernel does not know that', async () => {
    await home.drop()
    await begin(OLD_KERNEL)
    await elsewhere(() => other.write('later', 'one'))
    const { node } = await lookup('later')
    const { handle } = await open(node)
    await elsewhere(() => other.write('later', 'other'))
    await expect.poll(forgottenNames).toEqual([{ parent: ROOT, name: 'later', flags: 0 }])
    await release(node, handle)
  })

  it('ends for the time of the last read only where the kernel reads pages that it has: it asks after other reads', async () => {
    await elsewhere(() => other.write('f', 'one'))
    const { node, mtime } = await lookup('f')
    for (const wanted of [0, KEEP_CACHE]) {
      const { handle, flags } = await open(node)
      expect(flags & KEEP_CACHE).toBe(wanted)
      await release(node, handle)
    }
    expect(forgottenNodes()).toEqual([])
    expect((await lookup('f')).atime).toBeGreaterThanOrEqual(mtime)
    await chmod(node, 0o600)
    kernel.notices.length = 0
    const { handle, flags } = await open(node)
    expect(flags & KEEP_CACHE).toBe(KEEP_CACHE)
    expect(forgottenNodes()).toEqual([node])
    await release(node, handle)
  })

  it('appends at the end that the file has, and has the kernel forget where it took that to be', async () => {
    const { node, handle } = await create('f', ROOT)
    await write(node, handle, 'one', 0, fsConstants.O_APPEND)
    await write(node, handle, 'two', 90, fsConstants.O_APPEND)
    await expect.poll(forgottenNodes).toContain(node)
    expect((await lookup('f')).size).toBe(6)
    await write(node, handle, 'X', 1)
    expect((await lookup('f')).size).toBe(6)
    await release(node, handle)
  })
})

async function makeFolder(name: string): Promise<number> {
  const asked = wire.MKDIR_IN.encode({ mode: 0o755, umask: 0o22 })
  return wire.ENTRY_OUT.decode((await kernel.ask('MKDIR', ROOT, asked, texts(name))).body).node
}

/** One that the other machine has stored, as `d`. */
async function folderWithFile(): Promise<number> {
  await elsewhere(async () => {
    await other.makeDirectory('d')
    await other.write('d/f', 'one')
  })
  return (await lookup('d')).node
}
