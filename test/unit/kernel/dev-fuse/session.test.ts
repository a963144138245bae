import { constants as fsConstants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deferred } from '../../../../src/domain/deferred.ts'
import { silentLogger, type Logger } from '../../../../src/domain/logger.ts'
import type { HandleId } from '../../../../src/domain/ids.ts'
import * as wire from '../../../../src/kernel/dev-fuse/structures.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { TestService } from '../../../support/mounted-drive.ts'
import { SyntheticKernel, texts, type Told } from '../../../support/synthetic-kernel.ts'

const ROOT = 1
const KEEP_CACHE = 2
const NO_FLUSH = 1 << 5
const SEEK_DATA = 3
const SEEK_HOLE = 4
const NOTHING_SET = {
  valid: 0,
  handle: 0,
  size: 0,
  atime: 0,
  mtime: 0,
  atimeNs: 0,
  mtimeNs: 0,
  mode: 0,
  uid: 0,
  gid: 0,
}

let dir: string
let service: TestService
let home: DriveInProcess
let kernel: SyntheticKernel
let lines: string[]
let dying: ReadonlySet<number>

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-session-'))
  service = await TestService.start(join(dir, 'service'))
  const { url } = service.proxy
  home = await DriveInProcess.open({
    url,
    token: service.token,
    dir: join(dir, 'state'),
    writeBack: true,
  })
  lines = []
  dying = new Set()
  const note = (_fields: unknown, message: string): void => {
    lines.push(message)
  }
  const log: Logger = { ...silentLogger, warn: note, error: note }
  kernel = await SyntheticKernel.start({
    drive: home.drive,
    log,
    isToStop: (pid) => dying.has(pid),
  })
})
afterEach(async () => {
  expect([...kernel.answers.values()].every((count) => count === 1)).toBe(true)
  await home.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

function entry({ error, body }: Told) {
  expect(error).toBeUndefined()
  return wire.ENTRY_OUT.decode(body)
}

async function create(name: string, parent = ROOT, flags: number = fsConstants.O_RDWR) {
  const asked = wire.CREATE_IN.encode({ flags, mode: 0o100644, umask: 0o22, openFlags: 0 })
  const told = await kernel.ask('CREATE', parent, asked, texts(name))
  const { node } = entry(told)
  return { node, handle: wire.OPEN_OUT.decode(told.body, wire.ENTRY_OUT.size).handle }
}

function write(node: number, handle: number, text: string, offset = 0): Promise<Told> {
  const asked = { handle, offset, size: text.length, writeFlags: 0, flags: 0 }
  return kernel.ask('WRITE', node, wire.WRITE_IN.encode(asked), Buffer.from(text))
}

async function read(node: number, handle: number, size = 100, offset = 0): Promise<string> {
  const asked = { handle, offset, size, readFlags: 0, flags: 0 }
  const { error, body } = await kernel.ask('READ', node, wire.READ_IN.encode(asked))
  return error ?? body.toString()
}

function open(node: number, flags: number = fsConstants.O_RDONLY): Promise<Told> {
  return kernel.ask('OPEN', node, wire.OPEN_IN.encode({ flags, openFlags: 0 }))
}

async function close(node: number, handle: number): Promise<void> {
  const flush = await kernel.ask('FLUSH', node, wire.FLUSH_IN.encode({ handle }))
  expect(flush.error).toBeUndefined()
  const released = { handle, flags: 0, releaseFlags: 0 }
  await kernel.ask('RELEASE', node, wire.RELEASE_IN.encode(released))
}

async function make(name: string, text: string, parent = ROOT): Promise<number> {
  const { node, handle } = await create(name, parent)
  expect((await write(node, handle, text)).error).toBeUndefined()
  await close(node, handle)
  return node
}

async function makeFolder(name: string, parent: number = ROOT): Promise<number> {
  const asked = wire.MKDIR_IN.encode({ mode: 0o755, umask: 0o22 })
  return entry(await kernel.ask('MKDIR', parent, asked, texts(name))).node
}

/** An entry of no node is what the kernel makes ENOENT of, and goes by for a while. */
async function lookup(name: string, parent = ROOT): Promise<Told> {
  const told = await kernel.ask('LOOKUP', parent, texts(name))
  const isAbsent = told.error === undefined && entry(told).node === 0
  return isAbsent ? { ...told, error: 'ENOENT' } : told
}

async function attributes(node: number) {
  const asked = wire.GETATTR_IN.encode({ flags: 0, handle: 0 })
  const { error, body } = await kernel.ask('GETATTR', node, asked)
  expect(error).toBeUndefined()
  return wire.ATTR_OUT.decode(body)
}

interface Listed {
  readonly name: string
  readonly type: number
  readonly node: number
}

/** All pages of a directory. */
async function list(node: number, size: number, isPlus: boolean): Promise<readonly Listed[]> {
  const opened = await kernel.ask('OPENDIR', node, wire.OPEN_IN.encode({ flags: 0, openFlags: 0 }))
  const { handle } = wire.OPEN_OUT.decode(opened.body)
  const found: Listed[] = []
  const before = isPlus ? wire.ENTRY_OUT.size : 0
  for (let offset = 0; ;) {
    const asked = wire.READ_IN.encode({ handle, offset, size, readFlags: 0, flags: 0 })
    const told = await kernel.ask(isPlus ? 'READDIRPLUS' : 'READDIR', node, asked)
    expect(told.error).toBeUndefined()
    expect(told.body.length).toBeLessThanOrEqual(size)
    if (told.body.length === 0) break
    for (let at = 0; at < told.body.length;) {
      const { nameLength, type, offset: next } = wire.DIRENT.decode(told.body, at + before)
      const start = at + before + wire.DIRENT.size
      const name = told.body.toString('utf8', start, start + nameLength)
      found.push({ name, type, node: isPlus ? wire.ENTRY_OUT.decode(told.body, at).node : 0 })
      offset = next
      at = Math.ceil((start + nameLength) / 8) * 8
    }
  }
  await kernel.ask(
    'RELEASEDIR',
    node,
    wire.RELEASE_IN.encode({ handle, flags: 0, releaseFlags: 0 }),
  )
  return found
}

describe('a session', () => {
  it('makes, writes, reads and closes a file', async () => {
    const node = await make('a.txt', 'hello')
    expect(entry(await lookup('a.txt'))).toMatchObject({ node, size: 5, mode: 0o100644, uid: 1000 })
    const { handle } = wire.OPEN_OUT.decode((await open(node)).body)
    expect(await read(node, handle)).toBe('hello')
    expect(await read(node, handle, 2, 3)).toBe('lo')
    expect(await read(node, handle, 10, 5)).toBe('')
    await close(node, handle)
    expect(await read(node, handle)).toBe('EBADF')
    expect(kernel.session.load).toMatchObject({ open: 0, waiting: 0 })
    await home.drain()
    expect(await service.contents()).toEqual({ 'a.txt': 'hello' })
  })

  it('appends, cuts and sets times and modes, each alone', async () => {
    const node = await make('a', 'one')
    const { O_WRONLY, O_APPEND } = fsConstants
    const { handle } = wire.OPEN_OUT.decode((await open(node, O_WRONLY | O_APPEND)).body)
    await write(node, handle, 'two', 3)
    const set = async (values: Partial<typeof NOTHING_SET>) => {
      const asked = wire.SETATTR_IN.encode({ ...NOTHING_SET, ...values })
      const { error, body } = await kernel.ask('SETATTR', node, asked)
      return error ?? wire.ATTR_OUT.decode(body)
    }
    expect(await set({ valid: 1 << 5, mtime: 1000, mtimeNs: 5_000_000 })).toMatchObject({
      mtime: 1000,
      mtimeNs: 5_000_000,
    })
    const { mtime } = await attributes(node)
    expect(await set({ valid: 1 << 4, atime: 2000 })).toMatchObject({ mtime })
    expect(await set({ valid: 1 << 0, mode: 0o100600 })).toMatchObject({ mode: 0o100600, size: 6 })
    expect(await set({ valid: (1 << 3) | (1 << 6), size: 4, handle })).toMatchObject({ size: 4 })
    expect(await set({ valid: (1 << 5) | (1 << 8) })).not.toMatchObject({ mtime })
    await close(node, handle)
    expect(await set({ valid: 1 << 3, size: 2 })).toMatchObject({ size: 2 })
    expect(await set({ valid: 1 << 1, uid: 1000 })).toMatchObject({ uid: 1000 })
    expect(await set({ valid: 1 << 1, uid: 1001 })).toMatchObject({ uid: 1001, gid: 1000 })
    expect(await set({ valid: 1 << 2, gid: 1002 })).toMatchObject({ uid: 1001, gid: 1002 })
    expect(await set({ valid: 0b110, uid: 1001, gid: 0xffff_ffff })).toMatchObject({ gid: 1002 })
  })

  it('keeps times to the microsecond, before 1970 too, and moves ctime with each change', async () => {
    const node = await make('a', 'one')
    const asked = wire.SETATTR_IN.encode({
      ...NOTHING_SET,
      ...{ valid: (1 << 4) | (1 << 5), atime: -1, atimeNs: 999_999_999, mtime: -86_400 },
      mtimeNs: 123_456_789,
    })
    const before = Math.floor(Date.now() / 1000)
    const { body } = await kernel.ask('SETATTR', node, asked)
    const told = wire.ATTR_OUT.decode(body)
    expect(told).toMatchObject({ atime: -1, atimeNs: 999_999_000, mtime: -86_400 })
    expect(told.mtimeNs).toBe(123_456_000)
    expect(told.ctime).toBeGreaterThanOrEqual(before)
    expect(await attributes(node)).toMatchObject({ atimeNs: 999_999_000, mtimeNs: 123_456_000 })
  })

  it('lists a directory in pages, each name once, with what is known of it', async () => {
    const folder = await makeFolder('d')
    const names = Array.from({ length: 40 }, (_, index) => `name ${index} ${'é'.repeat(index)}`)
    for (const name of names) await make(name, 'x', folder)
    const expected = ['.', '..', ...names].sort()
    for (const size of [4096, 512]) {
      const plain = await list(folder, size, false)
      expect(plain.map(({ name }) => name).sort()).toEqual(expected)
      const plus = await list(folder, size, true)
      expect(plus.map(({ name }) => name).sort()).toEqual(expected)
      expect(plus.filter(({ node }) => node !== 0)).toHaveLength(names.length)
    }
    expect((await list(ROOT, 4096, true)).map(({ name }) => name)).toEqual(['.', '..', 'd'])
  })

  it('counts what it told the kernel of, and forgets it', async () => {
    const folder = await makeFolder('d')
    const node = await make('f', 'x', folder)
    await lookup('f', folder)
    await list(folder, 4096, true)
    expect(kernel.session.load.nodes).toBe(2)
    kernel.tell('FORGET', node, wire.FORGET_IN.encode({ lookups: 2 }))
    expect(kernel.session.load.nodes).toBe(2)
    kernel.tell(
      'BATCH_FORGET',
      0,
      wire.BATCH_FORGET_IN.encode({ count: 2 }),
      wire.FORGET_ONE.encode({ node, lookups: 1 }),
      wire.FORGET_ONE.encode({ node: folder, lookups: 1 }),
    )
    expect(kernel.session.load.nodes).toBe(0)
  })

  it('renames, also with RENAME2, exchanges, and never over what is not to be replaced', async () => {
    const node = await make('a', 'a')
    const other = await make('b', 'b')
    const plain = wire.RENAME_IN.encode({ newParent: ROOT })
    expect((await kernel.ask('RENAME', ROOT, plain, texts('a', 'c'))).error).toBeUndefined()
    expect(entry(await lookup('c')).node).toBe(node)
    const flagged = (flags: number): Promise<Told> => {
      const asked = wire.RENAME2_IN.encode({ newParent: ROOT, flags })
      return kernel.ask('RENAME2', ROOT, asked, texts('c', 'b'))
    }
    expect((await flagged(1)).error).toBe('EEXIST')
    expect((await flagged(3)).error).toBe('EINVAL')
    expect((await flagged(4)).error).toBe('EINVAL')
    expect((await flagged(2)).error).toBeUndefined()
    expect(entry(await lookup('b')).node).toBe(node)
    expect(entry(await lookup('c')).node).toBe(other)
    expect((await flagged(0)).error).toBeUndefined()
    expect((await lookup('c')).error).toBe('ENOENT')
    expect(entry(await lookup('b')).node).toBe(other)
  })

  it('lets an open file live on without a name, and without another one', async () => {
    const { node, handle } = await create('f')
    await write(node, handle, 'abc')
    expect((await kernel.ask('UNLINK', ROOT, texts('f'))).error).toBeUndefined()
    expect((await lookup('f')).error).toBe('ENOENT')
    expect(await list(ROOT, 4096, false)).toHaveLength(2)
    expect(await read(node, handle)).toBe('abc')
    expect(await attributes(node)).toMatchObject({ size: 3 })
    await close(node, handle)
    const gone = await open(node)
    expect(gone.error).toBe('ESTALE')
  })

  it('goes on with an open file that has moved into a folder', async () => {
    const folder = await makeFolder('d')
    const { node, handle } = await create('f')
    await write(node, handle, 'abc')
    const moved = wire.RENAME_IN.encode({ newParent: folder })
    expect((await kernel.ask('RENAME', ROOT, moved, texts('f', 'g'))).error).toBeUndefined()
    await write(node, handle, 'd', 3)
    expect(await attributes(node)).toMatchObject({ size: 4 })
    await close(node, handle)
    expect(entry(await lookup('g', folder))).toMatchObject({ size: 4 })
  })

  it('makes and removes directories, links, empty files and fifos', async () => {
    const folder = await makeFolder('d')
    const linked = await kernel.ask('SYMLINK', folder, texts('l', 'f'))
    const { node } = entry(linked)
    expect((await kernel.ask('READLINK', node)).body.toString()).toBe('f')
    const file = wire.MKNOD_IN.encode({ mode: 0o100644, device: 0, umask: 0 })
    expect(entry(await kernel.ask('MKNOD', folder, file, texts('f')))).toMatchObject({ size: 0 })
    const fifo = wire.MKNOD_IN.encode({ mode: 0o010644, device: 0, umask: 0 })
    expect((await kernel.ask('MKNOD', folder, fifo, texts('p'))).error).toBeUndefined()
    expect((await kernel.ask('RMDIR', ROOT, texts('d'))).error).toBe('ENOTEMPTY')
    for (const name of ['l', 'f', 'p']) await kernel.ask('UNLINK', folder, texts(name))
    expect((await kernel.ask('RMDIR', ROOT, texts('d'))).error).toBeUndefined()
    const link = wire.LINK_IN.encode({ node })
    expect((await kernel.ask('LINK', ROOT, link, texts('h'))).error).toBe('EPERM')
  })

  it.each(['the root', 'a folder'])(
    'makes files without a name in %s, which go, or get a name',
    async (where) => {
      const parent = where === 'the root' ? ROOT : await makeFolder('d')
      const tmpfile = async () => {
        const flags = fsConstants.O_RDWR
        const asked = wire.CREATE_IN.encode({ flags, mode: 0o100600, umask: 0, openFlags: 0 })
        const told = await kernel.ask('TMPFILE', parent, asked, texts('/'))
        const { node, nlink, mode } = entry(told)
        expect({ nlink, mode }).toEqual({ nlink: 0, mode: 0o100600 })
        return { node, handle: wire.OPEN_OUT.decode(told.body, wire.ENTRY_OUT.size).handle }
      }
      const link = (node: number, name: string, to = parent): Promise<Told> =>
        kernel.ask('LINK', to, wire.LINK_IN.encode({ node }), texts(name))
      const before = await list(parent, 4096, false)
      const lost = await tmpfile()
      await write(lost.node, lost.handle, 'lost')
      expect(await attributes(lost.node)).toMatchObject({ nlink: 0, size: 4 })
      await close(lost.node, lost.handle)
      expect(await list(parent, 4096, false)).toEqual(before)
      const kept = await tmpfile()
      await write(kept.node, kept.handle, 'kept')
      expect(
        (
          await kernel.ask(
            'FSYNC',
            kept.node,
            wire.FSYNC_IN.encode({ handle: kept.handle, flags: 0 }),
          )
        ).error,
      ).toBeUndefined()
      await make('taken', 'x', parent)
      expect((await link(kept.node, 'taken')).error).toBe('EEXIST')
      const other = parent === ROOT ? await makeFolder('e') : ROOT
      expect((await link(kept.node, 'name', other)).error).toBe('EXDEV')
      expect(entry(await link(kept.node, 'name'))).toMatchObject({ node: kept.node, nlink: 1 })
      expect((await link(kept.node, 'second')).error).toBe('EPERM')
      await write(kept.node, kept.handle, ' on', 4)
      await close(kept.node, kept.handle)
      const { node } = entry(await lookup('name', parent))
      expect(node).toBe(kept.node)
      expect(await attributes(node)).toMatchObject({ nlink: 1, size: 7 })
      const { handle } = wire.OPEN_OUT.decode((await open(node)).body)
      expect(await read(node, handle)).toBe('kept on')
      await close(node, handle)
    },
  )

  it('allocates, zeros and copies ranges', async () => {
    const { node, handle } = await create('f')
    await write(node, handle, '0123456789')
    const shown = async (file = { node, handle }): Promise<string> =>
      (await read(file.node, file.handle)).replaceAll('\0', '.')
    const allocate = (mode: number, offset: number, length: number): Promise<Told> =>
      kernel.ask('FALLOCATE', node, wire.FALLOCATE_IN.encode({ handle, offset, length, mode }))
    expect((await allocate(0, 2, 4)).error).toBeUndefined()
    expect(await read(node, handle)).toBe('0123456789')
    expect((await allocate(0, 8, 4)).error).toBeUndefined()
    expect(await shown()).toBe('0123456789..')
    expect((await allocate(3, 1, 2)).error).toBeUndefined()
    expect((await allocate(3, 11, 100)).error).toBeUndefined()
    expect((await allocate(0x10, 9, 5)).error).toBeUndefined()
    expect(await shown()).toBe('0..345678.....')
    expect((await allocate(1, 0, 100)).error).toMatch(/^(ENOTSUP|EOPNOTSUPP)$/)
    expect((await allocate(8, 0, 4)).error).toMatch(/^(ENOTSUP|EOPNOTSUPP)$/)
    const to = await create('g')
    const places = { handle, offset: 3, toNode: to.node, toHandle: to.handle, toOffset: 1 }
    const range = wire.COPY_FILE_RANGE_IN.encode({ ...places, length: 2 ** 40, flags: 0 })
    const copied = await kernel.ask('COPY_FILE_RANGE', node, range)
    expect(wire.WRITE_OUT.decode(copied.body).size).toBe(11)
    const copied64 = await kernel.ask('COPY_FILE_RANGE_64', node, range)
    expect(wire.COPY_FILE_RANGE_OUT.decode(copied64.body).copied).toBe(11)
    expect(await shown(to)).toBe('.345678.....')
    await close(to.node, to.handle)
    await close(node, handle)
    const reader = wire.OPEN_OUT.decode((await open(node)).body).handle
    const asked = wire.FALLOCATE_IN.encode({ handle: reader, offset: 0, length: 1, mode: 0 })
    expect((await kernel.ask('FALLOCATE', node, asked)).error).toBe('EBADF')
    await close(node, reader)
  })

  it.each(['the root', 'a folder'])('finds data and holes of a file in %s', async (place) => {
    const parent = place === 'the root' ? ROOT : await makeFolder('d')
    const { node, handle } = await create('sparse', parent)
    const seek = async (offset: number, whence: number, of = handle) => {
      const asked = wire.LSEEK_IN.encode({ handle: of, offset, whence })
      const { error, body } = await kernel.ask('LSEEK', node, asked)
      return error ?? wire.LSEEK_OUT.decode(body).offset
    }
    const [far, end] = [4 << 20, 8 << 20]
    await write(node, handle, 'x', far)
    const longer = wire.FALLOCATE_IN.encode({ handle, offset: 0, length: end, mode: 0 })
    expect((await kernel.ask('FALLOCATE', node, longer)).error).toBeUndefined()
    const lookAll = async (of: number): Promise<void> => {
      expect(await seek(0, SEEK_DATA, of)).toBe(far)
      expect(await seek(0, SEEK_HOLE, of)).toBe(0)
      expect(await seek(far, SEEK_DATA, of)).toBe(far)
      const hole = await seek(far, SEEK_HOLE, of)
      expect(hole).toBeGreaterThan(far)
      expect(hole).toBeLessThan(end)
      expect(await seek(Number(hole), SEEK_DATA, of)).toBe('ENXIO')
      expect(await seek(end, SEEK_HOLE, of)).toBe('ENXIO')
      expect(await seek(0, 7, of)).toBe('EINVAL')
    }
    await lookAll(handle)
    await close(node, handle)
    await home.drain()
    const reader = wire.OPEN_OUT.decode((await open(node)).body).handle
    if (place === 'the root') await lookAll(reader)
    else {
      // All of it is data where it is in a zip.
      expect(await seek(7, SEEK_DATA, reader)).toBe(7)
      expect(await seek(7, SEEK_HOLE, reader)).toBe(end)
    }
    await close(node, reader)
  })

  it('has the attributes that the drive has', async () => {
    const node = await make('f', 'x')
    const name = 'user.bagfs.description'
    const value = Buffer.from('words')
    const set = wire.SETXATTR_IN.encode({ size: value.length, flags: 0 })
    expect((await kernel.ask('SETXATTR', node, set, texts(name), value)).error).toBeUndefined()
    const get = (size: number, of = name): Promise<Told> =>
      kernel.ask('GETXATTR', node, wire.GETXATTR_IN.encode({ size }), texts(of))
    expect(wire.GETXATTR_OUT.decode((await get(0)).body)).toEqual({ size: 5 })
    expect((await get(5)).body.toString()).toBe('words')
    expect((await get(4)).error).toBe('ERANGE')
    expect((await get(9, 'user.other')).error).toBe('ENODATA')
    expect((await get(9, 'security.capability')).error).toMatch(/^(ENOTSUP|EOPNOTSUPP)$/)
    const all = await kernel.ask('LISTXATTR', node, wire.GETXATTR_IN.encode({ size: 1000 }))
    expect(all.body.toString().split('\0')).toContain(name)
    expect((await kernel.ask('REMOVEXATTR', node, texts(name))).error).toBeUndefined()
    expect((await get(9)).body.toString()).toBe('')
  })

  it('answers what is not the drive’s own so that the kernel sees to it', async () => {
    const { node, handle } = await create('f')
    const fsync = wire.FSYNC_IN.encode({ handle, flags: 0 })
    expect((await kernel.ask('FSYNC', node, fsync)).error).toBeUndefined()
    expect((await kernel.ask('FSYNCDIR', ROOT, fsync)).error).toBeUndefined()
    expect(wire.STATFS_OUT.decode((await kernel.ask('STATFS', ROOT)).body)).toMatchObject({
      namelen: 255,
    })
    const left = ['GETLK', 'SETLK', 'SETLKW', 'POLL', 'ACCESS', 'STATX', 'IOCTL'] as const
    for (const operation of [...left, 'BMAP'] as const) {
      expect((await kernel.ask(operation, node, Buffer.alloc(64))).error).toBe('ENOSYS')
    }
    await close(node, handle)
    expect((await kernel.ask('DESTROY', 0)).error).toBeUndefined()
  })

  it('lets the kernel keep the pages of an unchanged file only, and tell of closes of writers only', async () => {
    const node = await make('f', 'abc')
    const flagsOf = async (flags?: number): Promise<number> => {
      const opened = wire.OPEN_OUT.decode((await open(node, flags)).body)
      await close(node, opened.handle)
      return opened.flags
    }
    await flagsOf()
    expect(await flagsOf()).toBe(KEEP_CACHE | NO_FLUSH)
    expect(await flagsOf(fsConstants.O_WRONLY)).toBe(KEEP_CACHE)
    expect(await flagsOf(fsConstants.O_WRONLY | fsConstants.O_TRUNC)).toBe(0)
    await write(node, 1, 'x').then(({ error }) => {
      expect(error).toBe('EBADF')
    })
    const { handle } = wire.OPEN_OUT.decode((await open(node, fsConstants.O_WRONLY)).body)
    await write(node, handle, 'abcd')
    await close(node, handle)
    expect(await flagsOf()).toBe(NO_FLUSH)
    expect(await flagsOf()).toBe(KEEP_CACHE | NO_FLUSH)
  })

  it('has the kernel ask again for a size that turned out to be another one', async () => {
    await service.upload('f', 'longer than listed')
    await home.listing.youngerThan(0)
    const { node } = entry(await lookup('f'))
    const before = home.drive.getAttributes.bind(home.drive)
    home.drive.getAttributes = async (of) => ({ ...(await before(of)), size: 7 })
    const { handle } = wire.OPEN_OUT.decode((await open(node)).body)
    expect(kernel.notices.map(({ body }) => wire.NOTIFY_INVAL_INODE.decode(body))).toEqual([
      { node, offset: -1, length: 0 },
    ])
    await close(node, handle)
  })

  it('refuses names that are not UTF-8, and messages that are not whole', async () => {
    const name = Buffer.from([0xff, 0xfe, 0])
    expect((await kernel.ask('LOOKUP', ROOT, name)).error).toBe('EILSEQ')
    expect(lines).toEqual([])
    expect((await kernel.ask('LOOKUP', ROOT, Buffer.from('no end'))).error).toBe('EIO')
    expect((await kernel.ask('LOOKUP', ROOT)).error).toBe('EIO')
    expect((await kernel.ask('READ', ROOT, Buffer.alloc(8))).error).toBe('EIO')
    const asked = { handle: 1, offset: 0, size: 9, writeFlags: 0, flags: 0 }
    const short = await kernel.ask('WRITE', ROOT, wire.WRITE_IN.encode(asked), Buffer.from('x'))
    expect(short.error).toBe('EIO')
    expect(lines).toHaveLength(4)
  })
})

/** A download that stands still, so that reading it waits. */
async function waitingRead(): Promise<{ unique: bigint; told: Promise<Told>; handle: number }> {
  await service.upload('big', 'x'.repeat(300_000))
  await home.listing.youngerThan(0)
  const { node } = entry(await lookup('big'))
  const { handle } = wire.OPEN_OUT.decode((await open(node)).body)
  const read = home.drive.read.bind(home.drive)
  home.drive.read = (of: HandleId, buffer, position) =>
    position === 1 ? new Promise(() => undefined) : read(of, buffer, position)
  const asked = wire.READ_IN.encode({ handle, offset: 1, size: 10, readFlags: 0, flags: 0 })
  return { ...kernel.begin('READ', node, asked), handle }
}

function interrupt(unique: bigint): void {
  const body = wire.INTERRUPT_IN.encode({})
  body.writeBigUInt64LE(unique)
  kernel.tell('INTERRUPT', 0, body)
}

describe('a request that waits', () => {
  it('is given up with EINTR when its program is to end', async () => {
    const { unique, told } = await waitingRead()
    expect(kernel.session.load.waiting).toBe(1)
    dying = new Set([1])
    interrupt(unique)
    expect((await told).error).toBe('EINTR')
    expect(kernel.session.load.waiting).toBe(0)
    interrupt(unique)
  })

  it('goes on when its program handles the signal, and ends when a later one kills it', async () => {
    const { unique, told } = await waitingRead()
    interrupt(unique)
    expect(kernel.session.load.waiting).toBe(1)
    dying = new Set([1])
    expect((await told).error).toBe('EINTR')
  })

  const CHANGES = ['RENAME', 'UNLINK', 'RMDIR'].flatMap((operation) =>
    ['the root', 'a folder'].map((place) => ({ operation, place })),
  ) as readonly { operation: 'RENAME' | 'UNLINK' | 'RMDIR'; place: string }[]

  it.each(CHANGES)(
    'changes names all the same ($operation in $place), and the kernel asks for these again',
    async ({ operation, place }) => {
      const parent = place === 'the root' ? ROOT : await makeFolder('d')
      const node =
        operation === 'RMDIR' ? await makeFolder('f', parent) : await make('f', 'x', parent)
      const { drive } = home
      const mayGo = deferred()
      const hold =
        <Args extends unknown[]>(task: (...args: Args) => Promise<unknown>) =>
        async (...args: Args): Promise<never> => {
          await mayGo.promise
          return (await task(...args)) as never
        }
      drive.rename = hold(drive.rename.bind(drive))
      drive.unlink = hold(drive.unlink.bind(drive))
      drive.removeDirectory = hold(drive.removeDirectory.bind(drive))
      const parts =
        operation === 'RENAME'
          ? [wire.RENAME_IN.encode({ newParent: parent }), texts('f', 'g')]
          : [texts('f')]
      const { unique, told } = kernel.begin(operation, parent, ...parts)
      dying = new Set([1])
      interrupt(unique)
      expect((await told).error).toBe('EINTR')
      kernel.notices.length = 0
      mayGo.resolve()
      const left = operation === 'RENAME' ? ['g'] : []
      await expect.poll(() => home.names(parent === ROOT ? undefined : 'd')).toEqual(left)
      const ofNode = ({ body }: { readonly body: Buffer }): boolean =>
        wire.NOTIFY_INVAL_INODE.decode(body).node === node
      await expect.poll(() => kernel.notices.some(ofNode)).toBe(true)
      const asked = wire.GETATTR_IN.encode({ flags: 0, handle: 0 })
      expect((await kernel.ask('GETATTR', node, asked)).error).toMatch(/ESTALE|ENOENT/)
    },
  )

  it('leaves no file open that nobody waits for', async () => {
    const node = await make('f', 'x')
    const drive = home.drive
    const released: HandleId[] = []
    const release = drive.release.bind(drive)
    drive.release = (handle) => {
      released.push(handle)
      return release(handle)
    }
    const { unique, told } = kernel.begin(
      'OPEN',
      node,
      wire.OPEN_IN.encode({ flags: 0, openFlags: 0 }),
    )
    dying = new Set([1])
    interrupt(unique)
    expect((await told).error).toBe('EINTR')
    await expect.poll(() => released).toHaveLength(1)
    expect(kernel.session.load.open).toBe(0)
  })
})
