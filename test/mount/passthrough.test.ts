import { createHash } from 'node:crypto'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { open, stat, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount, canPassThrough } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { readAtRandom } from '../support/random-reads.ts'
import { noiseOf, SEED } from '../support/seed.ts'

const CONTENT = noiseOf(3_000_000)
const RANDOM_READS = 2_000

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start({ bridge: 'dev-fuse' })
})

/** As the service of a test is in this process, nothing here may wait for the drive synchronously. */
const opened: FileHandle[] = []
afterEach(async () => {
  for (const file of opened.splice(0)) await file.close().catch(() => undefined)
  await bench.close()
})

async function openIn(drive: MountedDrive): Promise<FileHandle> {
  const file = await open(join(drive.path, 'f'), 'r')
  opened.push(file)
  return file
}

async function bytesOf(file: FileHandle, length: number, position: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length)
  let done = 0
  for (;;) {
    const { bytesRead } = await file.read(buffer, done, length - done, position + done)
    done += bytesRead
    if (bytesRead === 0 || done === length) return buffer.subarray(0, done)
  }
}

/** The complete content that the cache of the drive has, as paths. */
function cachedFiles(): readonly string[] {
  const paths = readdirSync(bench.stateDir, { recursive: true }).map(String)
  const isComplete = (path: string): boolean => /\/cache\/v1\/..\/[^.]+$/.test(`/${path}`)
  return paths.filter(isComplete).map((path) => join(bench.stateDir, path))
}

/** A drive that has all of `f` in its cache. */
async function mountWithContent(...args: readonly string[]): Promise<MountedDrive> {
  await bench.service.upload('f', CONTENT)
  const drive = await bench.mount('--read-only', '--listing-ttl', '100ms', ...args)
  expect(await drive.sh('cat f | sha256sum')).toContain(sumOf(CONTENT))
  await expect.poll(cachedFiles).toHaveLength(1)
  return drive
}

function sumOf(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

async function reading(drive: MountedDrive): Promise<unknown> {
  const { stdout } = await bench.bagfs(['status', '--json', drive.path])
  return (JSON.parse(stdout) as { readonly passthrough: unknown }).passthrough
}

/** Reads while the drive stands still: so it is not the drive that answers. */
async function withoutDrive(drive: MountedDrive, task: () => Promise<void>): Promise<void> {
  drive.signal('SIGSTOP')
  try {
    await task()
  } finally {
    drive.signal('SIGCONT')
  }
}

describe.runIf(canPassThrough())('a drive with passthrough', { timeout: 120_000 }, () => {
  it('lets the kernel read what is cached, by read and by map', async () => {
    const drive = await mountWithContent()
    expect(await reading(drive)).toEqual({ active: true })
    const { stdout } = await bench.bagfs(['status', drive.path])
    expect(stdout).toContain('Reading:  passthrough: the kernel reads what is cached by itself\n')
    const fd = await openIn(drive)
    await withoutDrive(drive, async () => {
      expect(sumOf(await bytesOf(fd, 5_000_000, 0))).toBe(sumOf(CONTENT))
      expect(await bytesOf(fd, 100, 1_234_567)).toEqual(CONTENT.subarray(1_234_567, 1_234_667))
      expect(await bytesOf(fd, 100, CONTENT.length - 3)).toEqual(CONTENT.subarray(-3))
      expect(await bytesOf(fd, 100, CONTENT.length)).toHaveLength(0)
    })
    await fd.close()
    const map = `import mmap,hashlib,os
fd = os.open('f', os.O_RDONLY)
m = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
os.close(fd)
print(hashlib.sha256(m).hexdigest())`
    expect(await drive.sh(`python3 -c "${map}"; cp f ../copy; sha256sum ../copy`)).toMatch(
      new RegExp(`^${sumOf(CONTENT)}\n${sumOf(CONTENT)} `),
    )
  })

  it('lets two programs read one file, of which one began while it was downloaded', async () => {
    await bench.service.upload('f', CONTENT)
    const rate = { bytesPerSecond: 2_000_000 }
    const restore = bench.service.proxy.add({ match: { path: /download/ }, fault: rate })
    const drive = await bench.mount('--read-only')
    const first = await openIn(drive)
    const [all, sum] = await Promise.all([drive.sh('sha256sum f'), drive.sh('sha256sum f')])
    expect(all).toContain(sumOf(CONTENT))
    expect(sum).toBe(all)
    restore()
    await expect.poll(cachedFiles).toHaveLength(1)
    const second = await openIn(drive)
    for (const fd of [first, second])
      expect(sumOf(await bytesOf(fd, 5_000_000, 0))).toBe(sumOf(CONTENT))
    await first.close()
    expect(await drive.sh('sha256sum f')).toBe(all)
    await second.close()
    const third = await openIn(drive)
    await withoutDrive(drive, async () => {
      expect(sumOf(await bytesOf(third, 5_000_000, 0))).toBe(sumOf(CONTENT))
    })
    await third.close()
  })

  it('keeps a reader at its version when another machine appends, renames or removes it', async () => {
    const drive = await mountWithContent()
    const other = await bench.mountOther()
    const now = (): Promise<string> => drive.sh('stat -c %s f g 2>&1 || true')
    const first = await openIn(drive)
    await other.sh('echo more >> f')
    await expect.poll(now).toContain(`${CONTENT.length + 5}\n`)
    expect(await drive.sh('tail -c 5 f')).toBe('more\n')
    const second = await openIn(drive)
    await other.sh('mv f g')
    await expect.poll(now).toMatch(/No such file[^]*\d+\n/)
    expect(await drive.sh('tail -c 5 g')).toBe('more\n')
    await other.sh('rm g')
    await expect.poll(now).not.toMatch(/^\d+$/m)
    expect(sumOf(await bytesOf(first, 5_000_000, 0))).toBe(sumOf(CONTENT))
    expect((await bytesOf(second, 5, CONTENT.length)).toString()).toBe('more\n')
    await first.close()
    await second.close()
  })

  it('keeps what a program has open or mapped when the cache is cleared', async () => {
    const drive = await mountWithContent()
    const map = `import ctypes, hashlib, mmap, os, subprocess, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
fd = os.open('f', os.O_RDONLY)
size = os.fstat(fd).st_size
at = libc.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0))
os.close(fd)
print('mapped', flush=True)
sys.stdin.readline()
print(hashlib.sha256(ctypes.string_at(at, size)).hexdigest())`
    const program = spawn('python3', ['-c', map], { cwd: drive.path })
    const said: string[] = []
    program.stdout.on('data', (piece: Buffer) => said.push(piece.toString()))
    const ended = once(program, 'close')
    await expect.poll(() => said.join('')).toBe('mapped\n')
    const clear = () => bench.bagfs(['cache', 'clear', '--state-dir', bench.stateDir])
    await expect.poll(async () => (await clear(), cachedFiles())).toHaveLength(0)
    program.stdin.end('\n')
    await ended
    expect(said.join('')).toContain(sumOf(CONTENT))
    expect(await drive.sh('sha256sum f')).toContain(sumOf(CONTENT))
  })

  it('lets nothing be written, by no system call and after no remount', async () => {
    const drive = await mountWithContent()
    const fd = await openIn(drive)
    const refused = 'for c in "echo x >> f" "truncate -s 1 f" "rm f" "mv f g" "touch new"; do'
    const tries = `${refused} bash -c "$c" 2>&1 && echo DONE; done; true`
    expect(await drive.sh(tries)).not.toContain('DONE')
    await drive.sh('mount -o remount,rw "$PWD" 2>&1 || true')
    expect(await drive.sh(tries)).not.toContain('DONE')
    const map = "import mmap;f=open('f','rb');mmap.mmap(f.fileno(),0,prot=mmap.PROT_WRITE)"
    expect(await drive.sh(`python3 -c "${map}" 2>&1 || true`)).toContain('PermissionError')
    expect(sumOf(await bytesOf(fd, 5_000_000, 0))).toBe(sumOf(CONTENT))
    await fd.close()
    expect(sumOf(await bench.service.contentOf('f'))).toBe(sumOf(CONTENT))
    for (const path of cachedFiles()) expect(sumOf(readFileSync(path))).toBe(sumOf(CONTENT))
  })

  it('leaves readers right bytes when the drive is killed, and mounts again', async () => {
    const drive = await mountWithContent()
    const fd = await openIn(drive)
    await drive.kill()
    expect(sumOf(await bytesOf(fd, 5_000_000, 0))).toBe(sumOf(CONTENT))
    await fd.close()
    const again = await bench.mount('--read-only')
    expect(await again.sh('sha256sum f')).toContain(sumOf(CONTENT))
    expect(await reading(again)).toEqual({ active: true })
  })

  it.each([
    ['on', [], true],
    ['off', ['--passthrough', 'off'], false],
  ] as const)(
    `reads, maps and replaces at random, passthrough %s (seed ${SEED})`,
    async (_title, args, active) => {
      const theirs = await bench.mountOther('--listing-ttl', '100ms')
      const ours = await bench.mount('--read-only', '--listing-ttl', '100ms', ...args)
      const given = process.env['BAGFS_RANDOM_READS']
      const count = given === undefined ? RANDOM_READS : Number(given)
      const found = { ours: ours.path, theirs: theirs.path }
      console.log(await readAtRandom(found, { count, seed: SEED }))
      expect(await reading(ours)).toMatchObject({ active })
      expect(ours.log).not.toMatch(/A bug|cannot be read/)
    },
  )
})

describe.runIf(canMount())('a drive without passthrough', { timeout: 120_000 }, () => {
  it.each([
    ['takes changes', [], 'only a drive that is mounted with --read-only has it'],
    ['is told so', ['--read-only', '--passthrough', 'off'], 'as asked for'],
  ])('says why when it %s', async (_title, args, reason) => {
    await bench.service.upload('f', CONTENT)
    const drive = await bench.mount(...args)
    expect(await drive.sh('sha256sum f; sha256sum f')).toContain(sumOf(CONTENT))
    expect(await reading(drive)).toEqual({ active: false, reason })
    const { stdout } = await bench.bagfs(['status', drive.path])
    expect(stdout).toContain(`Reading:  by the drive; no passthrough: ${reason}\n`)
  })

  it('shows a reader what another program appends to the file that it has open', async () => {
    await bench.service.upload('f', CONTENT)
    const drive = await bench.mount()
    await drive.sh('sha256sum f')
    const fd = await openIn(drive)
    expect(sumOf(await bytesOf(fd, 5_000_000, 0))).toBe(sumOf(CONTENT))
    await drive.sh('echo more >> f')
    expect((await bytesOf(fd, 100, CONTENT.length)).toString()).toBe('more\n')
    await drive.sh('truncate -s 10 f')
    expect(await bytesOf(fd, 100, 0)).toEqual(CONTENT.subarray(0, 10))
    await fd.close()
    expect((await stat(join(drive.path, 'f'))).size).toBe(10)
  })
})
