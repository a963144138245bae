import {
  constants as fsConstants,
  fstatSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deferred } from '../../../../src/domain/deferred.ts'
import type { BagId, NodeId } from '../../../../src/domain/ids.ts'
import { silentLogger } from '../../../../src/domain/logger.ts'
import type { BridgeSettings } from '../../../../src/kernel/bridge.ts'
import type { BackingFiles } from '../../../../src/kernel/dev-fuse/backing-files.ts'
import { negotiate } from '../../../../src/kernel/dev-fuse/negotiation.ts'
import * as wire from '../../../../src/kernel/dev-fuse/structures.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'
import { SEED, seededRandom } from '../../../support/seed.ts'
import { SyntheticKernel, texts } from '../../../support/synthetic-kernel.ts'

const ROOT = 1
const KEEP_CACHE = 2
const NO_FLUSH = 1 << 5
const PASSTHROUGH = 1 << 7
const INIT = { major: 7, minor: 45, maxReadahead: 1 << 17, flags: 0x73ff_fffb }
const CONTENT = 'what the kernel reads by itself'

/** Files that a program with privilege registers, by their inodes. */
class Registered implements BackingFiles {
  readonly inodes = new Map<number, number>()
  refusal = (): string | undefined => undefined
  refusalOfFiles: string | undefined
  #last = 0

  add(fd: number): { readonly id: number } | { readonly refusal: string } {
    if (this.refusalOfFiles !== undefined) return { refusal: this.refusalOfFiles }
    this.#last += 1
    this.inodes.set(this.#last, fstatSync(fd).ino)
    return { id: this.#last }
  }

  remove(id: number): void {
    if (!this.inodes.delete(id)) throw new Error(`No file has the id ${id}.`)
  }
}

/** What the kernel keeps of a node's open files, and by which it refuses another one with EIO. */
class OpenInKernel {
  readonly #handles = new Map<number, Map<number, number | undefined>>()

  add(node: number, opened: { handle: number; flags: number; backingId: number }): void {
    const { handle, flags, backingId } = opened
    const ways = this.#handles.get(node) ?? new Map<number, number | undefined>()
    if ((flags & PASSTHROUGH) !== 0) expect(flags).toBe(PASSTHROUGH)
    const way = flags === PASSTHROUGH ? backingId : undefined
    for (const other of ways.values()) expect(way, 'one way for all of an inode').toBe(other)
    this.#handles.set(node, ways.set(handle, way))
  }

  remove(node: number, handle: number): void {
    this.#handles.get(node)?.delete(handle)
  }
}

let dir: string
let service: TestService
let home: DriveInProcess
let files: Registered
let inKernel: OpenInKernel
let kernel: SyntheticKernel

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-passthrough-'))
  service = await TestService.start(join(dir, 'service'))
  files = new Registered()
  inKernel = new OpenInKernel()
})
afterEach(async () => {
  await home.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

async function start(settings: Partial<BridgeSettings> = { readOnly: true }): Promise<void> {
  const { url } = service.proxy
  home = await DriveInProcess.open({
    ...{ url, token: service.token, dir: join(dir, 'state'), writeBack: true },
    settings: { readOnly: settings.readOnly === true, listingTtlMs: 1 },
  })
  const { drive } = home
  kernel = await SyntheticKernel.start({
    ...{ drive, log: silentLogger, backingFiles: files, settings },
  })
}

async function find(name: string): Promise<number> {
  const { error, body } = await kernel.ask('LOOKUP', ROOT, texts(name))
  expect(error).toBeUndefined()
  return wire.ENTRY_OUT.decode(body).node
}

const ask = (node: number, flags: number = fsConstants.O_RDONLY) =>
  kernel.ask('OPEN', node, wire.OPEN_IN.encode({ flags, openFlags: 0 }))

/** Opens a file to read; the flags beside that which all readers have. */
async function open(node: number) {
  const { error, body } = await ask(node)
  expect(error).toBeUndefined()
  const all = wire.OPEN_OUT.decode(body)
  expect(all.flags & NO_FLUSH).not.toBe(0)
  const opened = { ...all, flags: all.flags & ~NO_FLUSH }
  inKernel.add(node, opened)
  return opened
}

async function close(node: number, { handle }: { readonly handle: number }): Promise<void> {
  // The kernel is done with its open file before it tells.
  inKernel.remove(node, handle)
  const released = { handle, flags: 0, releaseFlags: 0 }
  await kernel.ask('RELEASE', node, wire.RELEASE_IN.encode(released))
}

async function readBy(node: number, { handle }: { readonly handle: number }): Promise<string> {
  const asked = { handle, offset: 0, size: 1000, readFlags: 0, flags: 0 }
  return (await kernel.ask('READ', node, wire.READ_IN.encode(asked))).body.toString()
}

/** A file that is whole in the cache, and closed. */
async function cached(name: string, content = CONTENT): Promise<{ node: number; bagId: string }> {
  const bagId = await service.upload(name, content)
  await home.drive.commands.refresh()
  const node = await find(name)
  const opened = await open(node)
  expect(await readBy(node, opened)).toBe(content)
  await close(node, opened)
  await expect.poll(() => wholeInode(node)).toBeDefined()
  return { node, bagId }
}

/** The inode of the cached file that an open file of this node would be read from. */
async function wholeInode(node: number): Promise<number | undefined> {
  const handle = await home.drive.open(node as NodeId, { writable: false, truncate: false })
  const whole = home.drive.wholeFileOf(handle)
  const inode = whole === undefined ? undefined : fstatSync(whole.fd).ino
  await home.drive.release(handle)
  return inode
}

/** Where the cache has the file of an inode. */
function pathOf(inode: number | undefined): string {
  const cache = join(dir, 'state', 'cache')
  const paths = readdirSync(cache, { recursive: true }).map((name) => join(cache, String(name)))
  const found = paths.find((path) => statSync(path).ino === inode)
  if (found === undefined) throw new Error('The cache has no such file.')
  return found
}

describe('passthrough', () => {
  it('hands whole cached content to the kernel, in one file for all that have it open', async () => {
    await start()
    const { node } = await cached('f')
    expect(kernel.session.passthrough).toEqual({ isActive: true })
    const [first, second] = [await open(node), await open(node)]
    expect(first.flags).toBe(PASSTHROUGH)
    expect(files.inodes.get(first.backingId)).toBe(await wholeInode(node))
    expect(second.backingId).toBe(first.backingId)
    await close(node, first)
    const third = await open(node)
    expect(third).toMatchObject({ flags: PASSTHROUGH, backingId: first.backingId })
    await close(node, second)
    await close(node, third)
    expect(files.inodes.size).toBe(0)
    expect((await open(node)).flags).toBe(PASSTHROUGH)
  })

  it('leaves a file to the drive for as long as one that the drive reads is open', async () => {
    await start()
    const bagId = (await service.upload('f', Buffer.alloc(8_000_000))) as BagId
    await home.drive.commands.refresh()
    const node = await find('f')
    const { promise, resolve } = deferred()
    service.proxy.add({ match: { path: /download/ }, fault: { before: () => promise } })
    const first = await open(node)
    resolve()
    expect(first.flags).toBe(0)
    await home.cache.fetch(bagId)
    await expect.poll(() => wholeInode(node)).toBeDefined()
    const second = await open(node)
    expect(second.flags).toBe(KEEP_CACHE)
    await close(node, first)
    const third = await open(node)
    expect(third.flags).toBe(KEEP_CACHE)
    await close(node, second)
    await close(node, third)
    expect((await open(node)).flags).toBe(PASSTHROUGH)
  })

  it('gives no file to the kernel that is not whole here', async () => {
    await start()
    const { node } = await cached('f')
    await home.cache.clear()
    // Nor does the kernel keep what it has of it.
    expect((await open(node)).flags).toBe(0)
    expect(files.inodes.size).toBe(0)
  })

  it('opens no content that was fetched anew beside what turned out to be wrong', async () => {
    await start({ readOnly: false })
    await home.write('f', CONTENT)
    await home.drain()
    await home.drop()
    await start()
    const node = await find('f')
    await expect.poll(() => wholeInode(node)).toBeDefined()
    const before = await open(node)
    expect(before.flags).toBe(PASSTHROUGH)
    const [record] = await service.list()
    writeFileSync(pathOf(files.inodes.get(before.backingId)), CONTENT.toUpperCase())
    expect(await home.cache.verify(record?.bag_id as BagId)).toBe('bad')
    expect((await ask(node)).error).toBe('ESTALE')
    await close(node, before)
    const after = await open(node)
    expect(after.flags).not.toBe(PASSTHROUGH)
    expect(await readBy(node, after)).toBe(CONTENT)
  })

  it('keeps a reader at the version that it opened, and opens the next one by its own file', async () => {
    await start()
    const { node, bagId } = await cached('f')
    const before = await open(node)
    await service.upload('f', 'another version')
    await service.delete(bagId)
    await home.drive.commands.refresh()
    await expect.poll(() => find('f')).not.toBe(node)
    expect((await ask(node)).error).toBe('ESTALE')
    const other = await find('f')
    const first = await open(other)
    expect(first.backingId).not.toBe(before.backingId)
    expect(await readBy(other, first)).toBe('another version')
    await close(other, first)
    await expect.poll(() => wholeInode(other)).toBeDefined()
    const after = await open(other)
    expect(after.flags).toBe(PASSTHROUGH)
    expect(after.backingId).not.toBe(before.backingId)
  })

  it('refuses writers, whatever the kernel lets through', async () => {
    await start()
    const { node } = await cached('f')
    await open(node)
    for (const flags of [fsConstants.O_WRONLY, fsConstants.O_RDWR, fsConstants.O_TRUNC]) {
      expect((await ask(node, flags)).error).toBe('EROFS')
    }
  })

  it.each<[string, Partial<BridgeSettings>, string]>([
    ['of a drive that takes changes', { readOnly: false }, '--read-only'],
    ['where it is turned off', { readOnly: true, passthrough: 'off' }, 'as asked for'],
  ])('is not %s', async (_title, settings, reason) => {
    await start(settings)
    const { node } = await cached('f')
    expect((await open(node)).flags).toBe(KEEP_CACHE)
    expect(kernel.session.passthrough).toMatchObject({ isActive: false })
    expect(JSON.stringify(kernel.session.passthrough)).toContain(reason)
  })

  it.each<[string, Buffer]>([
    ['an older version', wire.INIT_IN.encode({ ...INIT, flags: 0x03ff_fffb })],
    [
      'none',
      Buffer.concat([wire.INIT_IN.encode(INIT), wire.INIT_IN_MORE.encode({ flags2: 0x5d })]),
    ],
  ])('is not asked of a kernel that has %s', (_title, init) => {
    const agreed = negotiate(init, { passthrough: true })
    expect(agreed?.hasPassthrough).toBe(false)
    const answer = wire.INIT_OUT.decode(agreed?.answer ?? Buffer.alloc(0))
    expect(answer).toMatchObject({ flags2: 0, maxStackDepth: 0 })
  })

  it('is asked of a kernel only where it is wanted', () => {
    const more = wire.INIT_IN_MORE.encode({ flags2: 1 << 5 })
    const init = Buffer.concat([wire.INIT_IN.encode(INIT), more])
    const told = (passthrough: boolean) =>
      wire.INIT_OUT.decode(negotiate(init, { passthrough })?.answer ?? Buffer.alloc(0))
    expect(told(true)).toMatchObject({ minor: 40, flags2: 1 << 5, maxStackDepth: 1 })
    expect(told(true).flags & (1 << 30)).not.toBe(0)
    expect(told(false)).toMatchObject({ flags2: 0, maxStackDepth: 0 })
  })

  it('is not without privilege', async () => {
    files.refusal = () => 'EPERM'
    await start()
    const { node } = await cached('f')
    expect((await open(node)).flags).toBe(KEEP_CACHE)
    const reason = 'only root may have it'
    expect(kernel.session.passthrough).toEqual({ isActive: false, reason })
  })

  it('ends where the disk of the cache cannot have it, and what is open goes on', async () => {
    await start()
    const [{ node }, other] = [await cached('f'), await cached('g', 'other content')]
    const before = await open(node)
    files.refusalOfFiles = 'ELOOP'
    expect((await open(other.node)).flags).toBe(KEEP_CACHE)
    const reason = 'the disk of the cache cannot have it (ELOOP)'
    expect(kernel.session.passthrough).toEqual({ isActive: false, reason })
    expect(await open(node)).toMatchObject({ flags: PASSTHROUGH, backingId: before.backingId })
  })

  it('forgets an open file that the kernel never got', async () => {
    await start()
    const { node } = await cached('f')
    const asked = wire.OPEN_IN.encode({ flags: fsConstants.O_RDONLY, openFlags: 0 })
    const { unique } = kernel.begin('OPEN', node, asked)
    kernel.gone.add(unique)
    await expect.poll(() => kernel.answers.get(unique)).toBe(1)
    expect(files.inodes.size).toBe(0)
  })

  it(`gives the kernel no two ways at a time (seed ${SEED})`, { timeout: 60_000 }, async () => {
    await start()
    const { node } = await cached('f')
    const random = seededRandom(SEED)
    const opened: Awaited<ReturnType<typeof open>>[] = []
    const seen = new Set<number>()
    for (let step = 0; step < 300; step += 1) {
      const choice = random()
      if (choice < 0.5) opened.push(await open(node))
      else if (choice < 0.9) {
        const [one] = opened.splice(Math.floor(random() * opened.length), 1)
        if (one !== undefined) await close(node, one)
      } else if (opened.length === 0) await home.cache.clear()
      else {
        const some = opened[0]
        if (some !== undefined && some.flags !== PASSTHROUGH) await readBy(node, some)
      }
      for (const { flags } of opened) seen.add(flags & PASSTHROUGH)
      if (opened.length > 4) for (const each of opened.splice(0)) await close(node, each)
    }
    expect([...seen].sort()).toEqual([0, PASSTHROUGH])
    for (const each of opened) await close(node, each)
    expect(files.inodes.size).toBe(0)
  })
})
