import { constants, type Stats } from 'node:fs'
import {
  appendFile,
  chmod,
  chown,
  copyFile,
  link,
  lstat,
  mkdir,
  open,
  opendir,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  rmdir,
  stat,
  statfs,
  symlink,
  truncate,
  unlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { execa } from 'execa'
import { expect } from 'vitest'
import { systemErrorCode } from '../../src/domain/errors.ts'

/** Something that every bridge does, with a directory of its own. */
export interface Promised {
  readonly title: string
  /** Where links are kept: inside folders only. */
  readonly isOfFolders?: boolean
  /** What libfuse 2 has no operation for. */
  readonly isOfDevFuse?: boolean
  readonly run: (dir: string) => Promise<void>
}

const O_DIRECT = 0o40000

/** Sets, reads, lists and removes an attribute, leaving the drive's own aside. */
const EXTENDED = `
import os, sys
path = sys.argv[1]
def names(): return [name for name in os.listxattr(path) if not name.startswith('user.bagfs.')]
os.setxattr(path, 'user.a', b'\\0\\xff'); had = os.getxattr(path, 'user.a'), names()
os.removexattr(path, 'user.a'); print(*had, names())`

/** Where the first data of a file begins, where it ends, and whether there is more behind it. */
const EXTENTS = `
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
data = os.lseek(file, 0, os.SEEK_DATA)
hole = os.lseek(file, data, os.SEEK_HOLE)
try: more = os.lseek(file, hole, os.SEEK_DATA)
except OSError as error: more = 0 if error.errno == 6 else -1
print(data, hole, more)`

/** Exchanges two names. */
const EXCHANGE = `
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
done = libc.renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2)
print(0 if done == 0 else os.strerror(ctypes.get_errno()))`

/** Says something to itself through a socket of this path. */
const SOCKET = `
import socket, sys
server, client = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
server.bind(sys.argv[1]); server.listen(); client.connect(sys.argv[1])
client.send(b'heard'); print(server.accept()[0].recv(9).decode())`

async function refusal(task: Promise<unknown>): Promise<string | undefined> {
  return task.then(
    () => 'no error',
    (error: unknown) => systemErrorCode(error),
  )
}

async function python(script: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await execa('python3', ['-c', script, ...args], { timeout: 60_000 })
  return stdout
}

function bytesOf(length: number): Buffer {
  const bytes = Buffer.alloc(length)
  for (let at = 0; at + 4 <= length; at += 4) bytes.writeUInt32LE((at * 2_654_435_761) >>> 0, at)
  return bytes
}

const CONTENT: readonly Promised[] = [
  {
    title: 'has what was written',
    run: async (dir) => {
      const bytes = bytesOf(3_000_001)
      await writeFile(join(dir, 'f'), bytes)
      expect((await readFile(join(dir, 'f'))).equals(bytes)).toBe(true)
      expect((await stat(join(dir, 'f'))).size).toBe(bytes.length)
    },
  },
  {
    title: 'is read and written anywhere, also around the page cache',
    run: async (dir) => {
      const bytes = bytesOf(1 << 20)
      await writeFile(join(dir, 'f'), bytes)
      const file = await open(join(dir, 'f'), constants.O_RDWR | O_DIRECT)
      try {
        await file.write(Buffer.from('here'), 0, 4, 70_000)
        Buffer.from('here').copy(bytes, 70_000)
        const piece = Buffer.alloc(8192)
        for (const at of [0, 65_536, 69_632, (1 << 20) - 8192]) {
          expect((await file.read(piece, 0, 8192, at)).bytesRead).toBe(8192)
          expect(piece.equals(bytes.subarray(at, at + 8192))).toBe(true)
        }
        expect((await file.read(piece, 0, 8192, 1 << 20)).bytesRead).toBe(0)
      } finally {
        await file.close()
      }
      expect((await readFile(join(dir, 'f'))).equals(bytes)).toBe(true)
    },
  },
  {
    title: 'is appended to by several programs',
    run: async (dir) => {
      const path = join(dir, 'f')
      await writeFile(path, 'a')
      const [one, other] = [await open(path, 'a'), await open(path, 'a')]
      await one.write('b')
      await other.write('c')
      await one.write('d')
      await one.close()
      await other.close()
      await appendFile(path, 'e')
      expect(await readFile(path, 'utf8')).toBe('abcde')
    },
  },
  {
    title: 'is cut and lengthened, by name and open',
    run: async (dir) => {
      const path = join(dir, 'f')
      await writeFile(path, '0123456789')
      await truncate(path, 4)
      expect(await readFile(path, 'utf8')).toBe('0123')
      const file = await open(path, 'r+')
      await file.truncate(6)
      expect((await file.stat()).size).toBe(6)
      await file.write('x', 5)
      await file.close()
      expect(await readFile(path, 'latin1')).toBe('0123\0x')
      await (await open(path, 'w')).close()
      expect((await stat(path)).size).toBe(0)
    },
  },
  {
    title: 'is copied by a program, holes and all',
    run: async (dir) => {
      const file = await open(join(dir, 'f'), 'w')
      await file.write('end', 300_000)
      await file.close()
      await copyFile(join(dir, 'f'), join(dir, 'g'))
      await execa('cp', ['--sparse=always', join(dir, 'f'), join(dir, 'h')])
      const expected = Buffer.concat([Buffer.alloc(300_000), Buffer.from('end')])
      for (const name of ['g', 'h']) {
        expect((await readFile(join(dir, name))).equals(expected)).toBe(true)
      }
    },
  },
  {
    title: 'is allocated, and made zeros',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'abc')
      await execa('python3', [
        '-c',
        'import os, sys; f = os.open(sys.argv[1], os.O_RDWR); os.posix_fallocate(f, 1, 99_999)',
        join(dir, 'f'),
      ])
      const expected = Buffer.alloc(100_000)
      expected.write('abc')
      expect((await readFile(join(dir, 'f'))).equals(expected)).toBe(true)
    },
  },
  {
    title: 'is emptied in places',
    isOfDevFuse: true,
    run: async (dir) => {
      const bytes = bytesOf(100_000)
      await writeFile(join(dir, 'f'), bytes)
      await execa('fallocate', ['--punch-hole', '-o', '5000', '-l', '50000', join(dir, 'f')])
      bytes.fill(0, 5000, 55_000)
      expect((await readFile(join(dir, 'f'))).equals(bytes)).toBe(true)
    },
  },
  {
    title: 'tells where its data and its holes are',
    isOfDevFuse: true,
    run: async (dir) => {
      const file = await open(join(dir, 'f'), 'w')
      await file.write('data', 1_000_000)
      await file.truncate(2_000_000)
      await file.close()
      const told = await execa('python3', ['-c', EXTENTS, join(dir, 'f')])
      const [data = 0, hole = 0, end] = told.stdout.split(' ').map(Number)
      expect(data).toBeGreaterThan(900_000)
      expect(data).toBeLessThanOrEqual(1_000_000)
      expect(hole).toBeGreaterThan(1_000_000)
      expect(hole).toBeLessThan(1_100_000)
      expect(end).toBe(0)
    },
  },
  {
    title: 'is made without a name, and gets one once it is whole',
    isOfDevFuse: true,
    run: async (dir) => {
      const script = `
import os, sys
os.chdir(sys.argv[1])
f = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o640)
os.write(f, b'whole'); os.fsync(f)
print(os.listdir('.'), os.fstat(f).st_nlink)
os.link(f'/proc/self/fd/{f}', 'name', src_dir_fd=f)
print(os.listdir('.'), os.fstat(f).st_nlink, open('name').read())
os.write(f, b' file'); os.close(f)
print(open('name').read(), oct(os.stat('name').st_mode))
os.close(os.open('.', os.O_TMPFILE | os.O_RDWR))
print(os.listdir('.'))`
      const [made, named, closed, left] = (await python(script, dir)).split('\n')
      expect([made, named, closed, left]).toEqual([
        '[] 0',
        "['name'] 1 whole",
        'whole file 0o100640',
        "['name']",
      ])
    },
  },
  {
    title: 'is read and written through a mapping',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), bytesOf(20_000))
      const script = `
import mmap, sys
with open(sys.argv[1], 'r+b') as f:
    with mmap.mmap(f.fileno(), 0) as m:
        print(m[8:12].hex())
        m[8:12] = b'mmap'
        m.flush()
        m[19999:20000] = b'!'`
      const before = bytesOf(20_000).toString('hex', 8, 12)
      expect(await python(script, join(dir, 'f'))).toBe(before)
      const after = await readFile(join(dir, 'f'), 'latin1')
      expect(after.slice(8, 12) + after.slice(19_999)).toBe('mmap!')
    },
  },
  {
    title: 'is safe after fsync, also while it is open',
    run: async (dir) => {
      const file = await open(join(dir, 'f'), 'w')
      await file.write('one')
      await file.sync()
      await file.write('two')
      await file.datasync()
      await file.close()
      expect(await readFile(join(dir, 'f'), 'utf8')).toBe('onetwo')
      await execa('sync', [dir])
    },
  },
  {
    title: 'is locked by one program at a time',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'x')
      const script = `
import fcntl, os, sys
one, other = open(sys.argv[1], 'r+'), open(sys.argv[1], 'r+')
fcntl.flock(one, fcntl.LOCK_EX)
try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')
except BlockingIOError: print('locked')
fcntl.lockf(one, fcntl.LOCK_EX)
sys.stdout.flush()
if os.fork() == 0:
    try: fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB); print('free')
    except (BlockingIOError, PermissionError): print('locked')
    sys.exit()
os.wait()`
      expect(await python(script, join(dir, 'f'))).toBe('locked\nlocked')
    },
  },
]

const NAMES: readonly Promised[] = [
  {
    title: 'gets another name, and takes the place of another file',
    run: async (dir) => {
      await writeFile(join(dir, 'a'), 'a')
      await writeFile(join(dir, 'b'), 'b')
      await rename(join(dir, 'a'), join(dir, 'c'))
      await rename(join(dir, 'c'), join(dir, 'b'))
      expect(await readdir(dir)).toEqual(['b'])
      expect(await readFile(join(dir, 'b'), 'utf8')).toBe('a')
    },
  },
  {
    title: 'stays what it was for a program that has it open when another takes its place',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'old')
      await writeFile(join(dir, 'new'), 'newer')
      const file = await open(join(dir, 'f'), 'r')
      await rename(join(dir, 'new'), join(dir, 'f'))
      expect(await file.readFile('utf8')).toBe('old')
      expect(await readFile(join(dir, 'f'), 'utf8')).toBe('newer')
      await file.close()
      expect(await readFile(join(dir, 'f'), 'utf8')).toBe('newer')
    },
  },
  {
    title: 'lives on without a name while it is open',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'abc')
      const file = await open(join(dir, 'f'), 'r+')
      await unlink(join(dir, 'f'))
      expect(await refusal(stat(join(dir, 'f')))).toBe('ENOENT')
      await file.write('d', 3)
      expect((await file.stat()).size).toBe(4)
      expect(await file.readFile('utf8')).toBe('abcd')
      await writeFile(join(dir, 'f'), 'another')
      await file.close()
      expect(await readFile(join(dir, 'f'), 'utf8')).toBe('another')
    },
  },
  {
    title: 'keeps what is written to it while it gets another name',
    run: async (dir) => {
      const file = await open(join(dir, 'f'), 'w')
      await file.write('one ')
      await rename(join(dir, 'f'), join(dir, 'g'))
      await file.write('two')
      expect((await file.stat()).size).toBe(7)
      await file.close()
      expect(await readFile(join(dir, 'g'), 'utf8')).toBe('one two')
      expect(await readdir(dir)).toEqual(['g'])
    },
  },
  {
    title: 'gets the name of another file or directory, which gets its name',
    isOfDevFuse: true,
    run: async (dir) => {
      const path = (name: string): string => join(dir, name)
      for (const name of ['a', 'b']) await writeFile(path(name), name)
      for (const name of ['c', 'd']) {
        await mkdir(path(name))
        await writeFile(join(path(name), name), name)
      }
      const file = await open(path('a'), 'r+')
      expect(await python(EXCHANGE, path('a'), path('b'))).toBe('0')
      await file.write('A', 0)
      await file.close()
      expect(await readFile(path('b'), 'utf8')).toBe('A')
      expect(await readFile(path('a'), 'utf8')).toBe('b')
      expect(await python(EXCHANGE, path('c'), path('d'))).toBe('0')
      expect(await readdir(path('c'))).toEqual(['d'])
      expect(await python(EXCHANGE, path('c'), path('a'))).toBe('0')
      expect(await readFile(path('c'), 'utf8')).toBe('b')
      expect(await readFile(join(path('a'), 'd'), 'utf8')).toBe('d')
      expect(await python(EXCHANGE, path('a'), path('none'))).toBe('No such file or directory')
      expect((await readdir(dir)).sort()).toEqual(['a', 'b', 'c', 'd'])
    },
  },
  {
    title: 'is listed once among many, however the list is read',
    run: async (dir) => {
      const names = Array.from({ length: 300 }, (_, index) => `file ${index} ${'x'.repeat(60)}`)
      await mkdir(join(dir, 'many'))
      for (const name of names) await writeFile(join(dir, 'many', name), '')
      expect((await readdir(join(dir, 'many'))).sort()).toEqual([...names].sort())
      const { stdout } = await execa('ls', ['-l', join(dir, 'many')])
      expect(stdout.split('\n')).toHaveLength(names.length + 1)
      const script = `
import ctypes, os, sys
libc = ctypes.CDLL(None)
libc.opendir.restype = ctypes.c_void_p
libc.readdir.restype = ctypes.c_void_p
d = ctypes.c_void_p(libc.opendir(sys.argv[1].encode()))
def count():
    n = 0
    while libc.readdir(d): n += 1
    return n
first = count()
open(sys.argv[1] + '/new', 'w').close()
libc.rewinddir(d)
print(first, count())`
      expect(await python(script, join(dir, 'many'))).toBe('302 303')
      const found: string[] = []
      for await (const entry of await opendir(join(dir, 'many'))) {
        if (entry.isFile()) found.push(entry.name)
      }
      expect(found).toHaveLength(names.length + 1)
    },
  },
  {
    title: 'makes and removes directories, and none that something is in',
    run: async (dir) => {
      await mkdir(join(dir, 'd'))
      expect(await refusal(mkdir(join(dir, 'd')))).toBe('EEXIST')
      await writeFile(join(dir, 'd', 'f'), 'x')
      expect(await refusal(rmdir(join(dir, 'd')))).toBe('ENOTEMPTY')
      await rename(join(dir, 'd'), join(dir, 'e'))
      expect(await readFile(join(dir, 'e', 'f'), 'utf8')).toBe('x')
      await unlink(join(dir, 'e', 'f'))
      await rmdir(join(dir, 'e'))
      expect(await readdir(dir)).toEqual([])
    },
  },
  {
    title: 'keeps links',
    isOfFolders: true,
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'x')
      await symlink('f', join(dir, 'l'))
      expect(await readlink(join(dir, 'l'))).toBe('f')
      expect(await readFile(join(dir, 'l'), 'utf8')).toBe('x')
      expect((await lstat(join(dir, 'l'))).isSymbolicLink()).toBe(true)
    },
  },
]

const ATTRIBUTES: readonly Promised[] = [
  {
    title: 'has the mode that was set',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'x', { mode: 0o600 })
      expect(modeOf(await stat(join(dir, 'f')))).toBe(0o600)
      await chmod(join(dir, 'f'), 0o755)
      expect(modeOf(await stat(join(dir, 'f')))).toBe(0o755)
    },
  },
  {
    title: 'has the times that were set',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'x')
      await utimes(join(dir, 'f'), 1_000_000_000, 1_100_000_000)
      expect((await stat(join(dir, 'f'))).mtimeMs).toBe(1_100_000_000_000)
    },
  },
  {
    title: 'is told when it was read last: the first time after a change',
    run: async (dir) => {
      const path = join(dir, 'f')
      await writeFile(path, 'x')
      await utimes(path, 1_000_000_000, 1_100_000_000)
      const before = await stat(path)
      await readFile(path)
      const atimeMs = async (): Promise<number> => (await stat(path)).atimeMs
      await expect.poll(atimeMs, { timeout: 10_000 }).toBeGreaterThan(before.ctimeMs - 1000)
      const after = await stat(path)
      expect(after).toMatchObject({ mtimeMs: before.mtimeMs, ctimeMs: before.ctimeMs })
      await utimes(path, 1_200_000_000, 1_100_000_000)
      expect(await atimeMs()).toBe(1_200_000_000_000)
      const unread = await open(path, constants.O_RDONLY | constants.O_NOATIME)
      await unread.readFile()
      await unread.close()
      // Answered with all attributes as they are: the kernel goes by none of before.
      await chmod(path, 0o600)
      expect(await atimeMs()).toBe(1_200_000_000_000)
    },
  },
  {
    title: 'has the mode and the times that a directory is given when it is made',
    run: async (dir) => {
      const made = join(dir, 'd')
      await mkdir(made)
      await chmod(made, 0o750)
      await utimes(made, 1_000_000_000, 1_100_000_000)
      const { mode, mtimeMs } = await stat(made)
      expect(mode & 0o777).toBe(0o750)
      expect(mtimeMs).toBe(1_100_000_000_000)
    },
  },
  {
    title: 'tells of the room that there is',
    run: async (dir) => {
      const { blocks, bfree, bsize } = await statfs(dir)
      expect(blocks).toBeGreaterThan(0)
      expect(bfree).toBeLessThanOrEqual(blocks)
      expect(bsize).toBeGreaterThanOrEqual(4096)
    },
  },
]

const ERRORS: readonly Promised[] = [
  {
    title: 'refuses what cannot be, with the errno of each',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'x')
      await mkdir(join(dir, 'd'))
      const path = (name: string): string => join(dir, name)
      const other = Buffer.concat([Buffer.from(`${dir}/`), Buffer.from([0xff, 0xfe])])
      const refused = {
        missing: await refusal(open(path('none'), 'r')),
        inMissing: await refusal(writeFile(path('none/f'), 'x')),
        inFile: await refusal(stat(path('f/g'))),
        isDirectory: await refusal(writeFile(path('d'), 'x')),
        exclusive: await refusal(open(path('f'), 'wx')),
        hardLink: await refusal(link(path('f'), path('g'))),
        overDirectory: await refusal(rename(path('f'), path('d'))),
        directoryOverFile: await refusal(rename(path('d'), path('f'))),
        unlinkDirectory: await refusal(unlink(path('d'))),
        rmdirFile: await refusal(rmdir(path('f'))),
        long: await refusal(writeFile(path('x'.repeat(256)), 'x')),
        encoding: await refusal(writeFile(other, 'x')),
      }
      expect(refused).toEqual({
        missing: 'ENOENT',
        inMissing: 'ENOENT',
        inFile: 'ENOTDIR',
        isDirectory: 'EISDIR',
        exclusive: 'EEXIST',
        hardLink: 'EPERM',
        overDirectory: 'EISDIR',
        directoryOverFile: 'ENOTDIR',
        unlinkDirectory: 'EISDIR',
        rmdirFile: 'ENOTDIR',
        long: 'ENAMETOOLONG',
        encoding: 'EILSEQ',
      })
    },
  },
  {
    title: 'lets root give files away, and others only to themselves',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'x')
      const { uid, gid } = await stat(join(dir, 'f'))
      await chown(join(dir, 'f'), uid, gid)
      const isRoot = process.getuid?.() === 0
      expect(await refusal(chown(join(dir, 'f'), uid + 1, gid))).toBe(isRoot ? 'no error' : 'EPERM')
      expect(await stat(join(dir, 'f'))).toMatchObject({ uid: isRoot ? uid + 1 : uid, gid })
    },
  },
  {
    title: 'keeps extended attributes of programs',
    run: async (dir) => {
      await writeFile(join(dir, 'f'), 'x')
      expect(await python(EXTENDED, join(dir, 'f'))).toBe("b'\\x00\\xff' ['user.a'] []")
    },
  },
  {
    title: 'has fifos and sockets that work',
    run: async (dir) => {
      const script =
        'mkfifo fifo; (echo through > fifo &) ; cat fifo; mv fifo other; stat -c "%F %s" other; rm other; ls -A'
      const { stdout } = await execa('sh', ['-euc', script], { cwd: dir, timeout: 60_000 })
      expect(stdout).toBe('through\nfifo 0')
      expect(await python(SOCKET, join(dir, 's'))).toBe('heard')
      expect((await stat(join(dir, 's'))).isSocket()).toBe(true)
      expect((await readdir(dir, { withFileTypes: true })).map((each) => each.isSocket())).toEqual([
        true,
      ])
      await unlink(join(dir, 's'))
    },
  },
]

function modeOf({ mode }: Stats): number {
  return mode & 0o7777
}

/** What programs rely on, whichever bridge it is. */
export const CONTRACT: readonly Promised[] = [...CONTENT, ...NAMES, ...ATTRIBUTES, ...ERRORS]

export async function emptied(dir: string): Promise<void> {
  for (const name of await readdir(dir)) await rm(join(dir, name), { recursive: true })
}
