import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chownSync,
  closeSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { FileRecordWire } from '../../src/service/wire.ts'
import { findMount } from '../../src/disk/find-mount.ts'
import { deferred, type Deferred } from '../../src/domain/deferred.ts'
import { borrowDescriptor } from '../support/borrowed-descriptor.ts'
import { canRunAsOther, canMount } from '../support/fuse.ts'
import { Bench, HANGING_MS } from '../support/mounted-drive.ts'
import { asOther, letOthersPass, OTHER_UID, type OtherOutcome } from '../support/other-user.ts'
import { PROGRAM } from '../support/service-process.ts'
import { placesIn } from '../support/places.ts'

const UPLOAD = { method: 'POST', path: /upload/ }

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  await bench.close()
})

/** Writes into a map of a file, and keeps it for as long as its input is open. */
const MAPPER = `
import mmap, sys
file = open(sys.argv[1], 'r+b')
pages = mmap.mmap(file.fileno(), 0)
pages[0:7] = b'written'
print('written', flush=True)
sys.stdin.read()
`

/** True while the proxy holds back an upload that the drive has begun. */
const isUploading = (): boolean =>
  bench.service.proxy.requests.some(({ path }) => UPLOAD.path.test(path))

function manyRecords(count: number): readonly FileRecordWire[] {
  return Array.from({ length: count }, (_, index) => ({
    filename: `bag ${index}`,
    size: 100,
    uploaded_at: 1_700_000_000,
    description: '',
    bag_id: index.toString(16).padStart(64, '0'),
  }))
}

/** A process that has ended keeps no command line, also before its parent asks how it ended. */
function isRunning(pid: number): boolean {
  const path = `/proc/${pid}/cmdline`
  return existsSync(path) && readFileSync(path, 'utf8') !== ''
}

/** Uploads wait at the proxy until they may pass. */
function holdUploads(): Deferred {
  const mayPass = deferred()
  bench.service.proxy.add({ match: UPLOAD, fault: { before: () => mayPass.promise } })
  return mayPass
}

/** Runs a command of the system that knows nothing of bagfs. */
async function outside(command: string): Promise<void> {
  await execa('bash', ['-c', command], { timeout: HANGING_MS })
}

/** A pipe that a program in the drive waits at, or is waited for. */
async function makePipe(name = 'go'): Promise<string> {
  const path = join(bench.dir, name)
  await outside(`mkfifo ${path}`)
  return path
}

describe.runIf(canMount())('a signal', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)(
    '%s unmounts an idle drive and ends it',
    async (signal) => {
      const drive = await bench.mount()
      drive.signal(signal)
      expect(await drive.ended()).toBe(0)
      expect(drive.isMounted).toBe(false)
      expect(readdirSync(bench.mountpoint)).toEqual([])
    },
  )

  it('before the drive is mounted ends it', async () => {
    bench.service.proxy.add({ fault: { silence: true } })
    const drive = bench.begin('--timeout', '5m')
    await expect.poll(() => bench.service.proxy.requests.length).toBeGreaterThan(0)
    drive.signal('SIGINT')
    expect(await drive.ended()).not.toBe(0)
    expect(drive.isMounted).toBe(false)
  })

  it('during a read ends the drive in bounded time, and the reader too', async () => {
    await bench.service.upload('big.bin', randomBytes(3_000_000))
    const drive = await bench.mount('--timeout', '1s')
    bench.service.proxy.add({ match: { path: /download/ }, fault: { stallResponseAfter: 500_000 } })
    const reading = drive.fails('cat big.bin > /dev/null')
    await expect
      .poll(() => bench.service.proxy.requests.some(({ path }) => path.includes('download')))
      .toBe(true)
    drive.signal('SIGTERM')
    await drive.ended()
    expect((await reading).code).not.toBe(0)
    expect(drive.isMounted).toBe(false)
  })

  it('during an upload waits for it, and cp succeeds', async () => {
    const drive = await bench.mount()
    const mayPass = holdUploads()
    const copying = drive.sh('echo waited for > file.txt')
    await expect.poll(isUploading).toBe(true)
    drive.signal('SIGINT')
    await expect.poll(() => drive.log).toContain('Leaving: 1 change waits')
    mayPass.resolve()
    await copying
    expect(await drive.ended()).toBe(0)
    expect(drive.isMounted).toBe(false)
    expect(await bench.service.contents()).toEqual({ 'file.txt': 'waited for\n' })
  })

  it('waits for what the outbox holds in mode back', async () => {
    const drive = await bench.mount('--write-back')
    const mayPass = holdUploads()
    await drive.sh('for i in 1 2 3 4 5 6; do echo $i > $i.txt; done')
    drive.signal('SIGTERM')
    await expect.poll(() => drive.log).toContain('Leaving: 6 changes wait')
    mayPass.resolve()
    await drive.ended()
    expect(Object.keys(await bench.service.contents())).toHaveLength(6)
  })

  it('given twice leaves at once, says what waits, and the next mount sends it', async () => {
    const drive = await bench.mount('--write-back')
    const heal = bench.service.proxy.add({ match: UPLOAD, fault: { silence: true } })
    await drive.sh('echo kept > file.txt')
    await expect.poll(isUploading).toBe(true)
    drive.signal('SIGINT')
    await expect.poll(() => drive.log).toContain('Leaving: 1 change waits')
    await expect
      .poll(() => {
        // A signal that comes once the drive has left ends what is left of the process.
        if (!drive.log.includes('changes wait in the outbox')) drive.signal('SIGINT')
        return drive.process.exitCode
      })
      .toBe(0)
    expect(drive.isMounted).toBe(false)
    heal()
    const next = await bench.mount()
    expect(await next.sh('cat file.txt')).toBe('kept\n')
    await expect.poll(() => bench.service.list()).toHaveLength(1)
    expect(await bench.service.contents()).toEqual({ 'file.txt': 'kept\n' })
  })

  it('while a program writes stores what it had written', async () => {
    const drive = await bench.mount()
    const go = await makePipe()
    const writing = drive.sh(`exec 3> open.txt; echo begun >&3; read -r < ${go}`)
    await expect.poll(() => drive.sh('cat open.txt || true')).toBe('begun\n')
    drive.signal('SIGTERM')
    await drive.ended()
    await outside(`echo > ${go}`)
    await writing.catch(() => undefined)
    expect(await bench.service.contents()).toEqual({ 'open.txt': 'begun\n' })
  })
})

describe.runIf(canMount())('bagfs umount', () => {
  it('returns when the drive has let go of everything: it can be mounted again at once', async () => {
    await bench.close()
    // To write the listing down takes a while.
    bench = await Bench.start({ extraRecords: () => manyRecords(50_000) })
    expect((await bench.mountBy()).code).toBe(0)
    const status = await readFile(join(bench.mountpoint, '.bagfs/status.json'), 'utf8')
    const { pid } = JSON.parse(status) as { pid: number }
    expect(isRunning(pid)).toBe(true)
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
    expect(isRunning(pid)).toBe(false)
    expect((await bench.mountBy()).code).toBe(0)
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
  })

  it('waits until the service has everything', async () => {
    const drive = await bench.mount('--write-back')
    const mayPass = holdUploads()
    await drive.sh('echo waited for > file.txt')
    const leaving = execa(process.execPath, [PROGRAM, 'umount', bench.mountpoint], {
      env: placesIn(bench.dir),
      timeout: HANGING_MS,
    })
    const said: string[] = []
    leaving.stderr.on('data', (chunk: Buffer) => said.push(chunk.toString()))
    await expect.poll(() => said.join('')).toContain('Leaving: 1 change waits')
    mayPass.resolve()
    await leaving
    expect(await bench.service.contents()).toEqual({ 'file.txt': 'waited for\n' })
    expect(drive.isMounted).toBe(false)
    await drive.ended()
  })

  it('--now leaves at once, says what is kept, and the next mount sends it', async () => {
    const drive = await bench.mount('--write-back')
    const heal = bench.service.proxy.add({ match: UPLOAD, fault: { silence: true } })
    await drive.sh('echo kept > file.txt')
    const outcome = await bench.bagfs(['umount', '--now', bench.mountpoint])
    expect(outcome.code).toBe(0)
    expect(outcome.stderr).toContain('1 change is not at the service yet')
    await drive.ended()
    heal()
    await bench.mount()
    await expect.poll(() => bench.service.list()).toHaveLength(1)
  })

  it('fails when the service does not take everything, and says what is kept', async () => {
    const drive = await bench.mount('--write-back')
    bench.service.proxy.add({ match: UPLOAD, fault: { answer: { status: 422, body: 'no' } } })
    await drive.sh('echo kept > file.txt')
    const outcome = await bench.bagfs(['umount', bench.mountpoint])
    expect(outcome.stderr).toContain('1 change is not at the service yet: kept in the outbox.')
    expect(outcome.code).toBe(1)
    expect(drive.isMounted).toBe(false)
    expect(await drive.ended()).toBe(0)
  })

  it.each(['while it waits', 'before it'])(
    'of a drive that is killed %s says what is kept, and the next mount sends it',
    async (when) => {
      const drive = await bench.mount('--write-back')
      const heal = bench.service.proxy.add({ match: UPLOAD, fault: { silence: true } })
      await drive.sh('echo one > a.txt; echo two > b.txt')
      if (when === 'before it') drive.signal('SIGKILL')
      const leaving = bench.bagfs(['umount', bench.mountpoint])
      if (when === 'while it waits') {
        await expect.poll(() => drive.log).toContain('Leaving: 2 changes wait')
        drive.signal('SIGKILL')
      }
      const outcome = await leaving
      expect(outcome.stderr).toContain(
        `The drive ended; 2 changes are kept, the next mount sends them: bagfs mount ${bench.mountpoint} `,
      )
      expect(outcome.code).toBe(1)
      expect(drive.isMounted).toBe(false)
      heal()
      await bench.mount()
      await expect
        .poll(() => bench.service.contents())
        .toEqual({ 'a.txt': 'one\n', 'b.txt': 'two\n' })
    },
  )

  it('counts what was written twice once, also while the first is being sent', async () => {
    const drive = await bench.mount('--write-back')
    bench.service.proxy.add({ match: UPLOAD, fault: { silence: true } })
    await drive.sh('echo one > a.txt')
    await expect.poll(isUploading).toBe(true)
    await drive.sh('echo two > a.txt')
    const outcome = await bench.bagfs(['umount', '--now', bench.mountpoint])
    expect(outcome.stderr).toContain('1 change is not at the service yet')
    expect(await drive.ended()).toBe(0)
  })

  it.runIf(canRunAsOther())('is refused to another user, and the drive goes on', async () => {
    const drive = await bench.mount('--allow-other')
    letOthersPass(bench.dir)
    const theirs = join(bench.dir, 'theirs')
    mkdirSync(theirs)
    chownSync(theirs, OTHER_UID, OTHER_UID)
    const umountAsThem = (path: string): Promise<OtherOutcome> =>
      asOther(`${process.execPath} ${resolve(PROGRAM)} umount ${path}`, {
        env: placesIn(theirs),
      })
    expect(await umountAsThem(bench.mountpoint)).toEqual({
      code: 3,
      said: `bagfs: The drive at ${bench.mountpoint} belongs to another user.\n  That user or root can unmount it.`,
    })
    const closed = join(bench.dir, 'closed')
    mkdirSync(closed, { mode: 0o700 })
    expect(await umountAsThem(join(closed, 'drive'))).toEqual({
      code: 3,
      said: `bagfs: You may not look into a directory on the way to ${closed}/drive.\n  The owner of that directory, or root, can do this.`,
    })
    expect(await drive.sh('ls')).toBe('')
  })

  it('is refused while a program uses the drive, and the drive goes on', async () => {
    await bench.service.upload('a.txt', 'a\n')
    const drive = await bench.mount()
    const [isUsing, go] = [await makePipe('is-using'), await makePipe()]
    const using = drive.sh(`exec 3< a.txt; echo > ${isUsing}; read -r < ${go}`)
    await outside(`read -r < ${isUsing}`)
    const outcome = await bench.bagfs(['umount', bench.mountpoint])
    expect(outcome.code).toBe(7)
    expect(outcome.stderr).toMatch(/^bagfs: .* is in use by a program\.\n {2}.*--now/)
    expect(await drive.sh('cat a.txt')).toBe('a\n')
    expect((await bench.bagfs(['umount', '--now', bench.mountpoint])).code).toBe(0)
    await drive.ended()
    expect(drive.isMounted).toBe(false)
    await outside(`echo > ${go}`)
    await using
  })

  it('is refused where the drive is mounted a second time, and says where', async () => {
    const drive = await bench.mount()
    const second = join(bench.dir, 'second')
    mkdirSync(second)
    await outside(`mount --bind ${bench.mountpoint} ${second}`)
    try {
      const outcome = await bench.bagfs(['umount', bench.mountpoint])
      expect(outcome.stderr).toContain(`${bench.mountpoint} is mounted at ${second}, too.`)
      expect(outcome.code).toBe(7)
      expect(await drive.sh('ls')).toBe('')
    } finally {
      await outside(`umount ${second}`)
    }
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
  })

  it.each([[[]], [['--now']]])(
    'stores what a program of another namespace has in a map (%j)',
    async (options) => {
      const drive = await bench.mount()
      await drive.sh('printf .......... > mapped')
      const unshared = ['--mount', '--propagation', 'private', 'python3', '-c', MAPPER]
      const mapper = execa('unshare', [...unshared, join(drive.path, 'mapped')], {
        timeout: HANGING_MS,
        reject: false,
      })
      await once(mapper.stdout, 'data', { signal: AbortSignal.timeout(HANGING_MS) })
      const outcome = await bench.bagfs(['umount', ...options, bench.mountpoint])
      mapper.stdin.end()
      await mapper
      expect(outcome).toMatchObject({ code: 0 })
      await drive.ended()
      const again = await bench.mount()
      expect(await again.sh('cat mapped')).toBe('written...')
    },
  )

  it('is told that a drive hangs; with --now its programs are let go all the same', async () => {
    const drive = await bench.mount('--write-back')
    await drive.sh('echo kept > kept.txt')
    drive.signal('SIGSTOP')
    try {
      const waits = await bench.bagfs(['umount', bench.mountpoint])
      expect(waits.code).not.toBe(0)
      expect(waits.stderr).toMatch(/does not answer\.\n {2}Its process hangs/)
      expect(drive.isMounted).toBe(true)
      const now = await bench.bagfs(['umount', '--now', bench.mountpoint])
      expect(now.code).not.toBe(0)
      expect(now.stderr).toContain(`End it: kill -9 ${drive.process.pid ?? 0}.`)
      expect(drive.isMounted).toBe(false)
    } finally {
      drive.signal('SIGCONT')
    }
    await drive.ended()
    await (await bench.mount()).leave()
    expect(await bench.service.contents()).toEqual({ 'kept.txt': 'kept\n' })
  })

  it.each(['the next mount', 'umount --now'])(
    'is killed while the kernel waits for it: %s ends what hangs',
    async (by) => {
      const drive = await bench.mount('--write-back')
      await drive.sh('echo kept > kept.txt')
      const device = borrowDescriptor(drive.process.pid ?? 0, '/dev/fuse')
      try {
        drive.process.kill('SIGKILL')
        await drive.ended()
        const hanging = execa('cat', [join(bench.mountpoint, 'unknown')], {
          reject: false,
          timeout: HANGING_MS,
        })
        if (by === 'umount --now') await bench.bagfs(['umount', '--now', bench.mountpoint])
        const again = await bench.mount()
        expect((await hanging).stderr).toMatch(/not connected|abort/)
        // The mount of before was there until then.
        await expect.poll(() => again.log, { timeout: HANGING_MS }).toContain('Mounted at')
        await again.leave()
      } finally {
        closeSync(device)
      }
      expect(await bench.service.contents()).toEqual({ 'kept.txt': 'kept\n' })
    },
  )

  it('leaves a drive alone that was mounted there when this one was taken away', async () => {
    const first = await bench.mount()
    await expect.poll(() => first.log).toContain('Mounted at')
    first.signal('SIGSTOP')
    await outside(`fusermount -u ${bench.mountpoint}`)
    const second = await bench.mountAnother()
    first.signal('SIGCONT')
    expect(await first.ended()).toBe(0)
    expect(second.isMounted).toBe(true)
    expect(await second.sh('echo here > here.txt; cat here.txt')).toBe('here\n')
    expect(await bench.bagfs(['status', bench.mountpoint])).toMatchObject({ code: 0 })
  })

  it.each(['dev-fuse', 'fuse-native'])(
    'takes no other drive for its own to which the kernel gave the numbers of its mount (%s)',
    async (bridge) => {
      // Another test may mount in between and get the numbers.
      for (let attempt = 0; attempt < 20; attempt++) {
        const first = await bench.mount('--bridge', bridge)
        await expect.poll(() => first.log).toContain('Mounted at')
        const before = await findMount(bench.mountpoint)
        first.signal('SIGSTOP')
        await outside(`fusermount -u ${bench.mountpoint}`)
        const second = await bench.mountOther()
        const after = await findMount(second.path)
        first.signal('SIGCONT')
        expect(await first.ended()).toBe(0)
        if (after?.id === before?.id && after?.device === before?.device) {
          expect(first.log).not.toContain('was renamed')
          expect((await bench.bagfs(['status'])).stdout).toMatch(`Drive:    ${second.path} `)
          expect((await bench.bagfs(['status', bench.mountpoint])).code).not.toBe(0)
          return
        }
        await second.leave()
      }
      throw new Error('The kernel never gave the numbers to the other drive.')
    },
  )

  it('does not leave when a directory above its mountpoint is renamed, and is found where it is then', async () => {
    const before = join(bench.dir, 'before', 'drive')
    const after = join(bench.dir, 'after', 'drive')
    mkdirSync(before, { recursive: true })
    const { service, stateDir } = bench
    const mounted = await bench.bagfs(
      ['mount', before, '--url', service.proxy.url, '--state-dir', stateDir, '--min-free', '1MB'],
      { env: { BAGFS_TOKEN: service.token } },
    )
    expect(mounted).toMatchObject({ code: 0 })
    try {
      // A program of its own: one that this process starts closes what it has open, and waits for the upload.
      const writer = execa(
        'sh',
        ['-c', 'exec > begun.txt; printf "begun "; read -r _; printf "and ended"'],
        { cwd: before, timeout: HANGING_MS },
      )
      await expect.poll(() => existsSync(join(before, 'begun.txt'))).toBe(true)
      renameSync(dirname(before), dirname(after))
      await expect
        .poll(async () => (await bench.bagfs(['status', after])).stdout, { timeout: HANGING_MS })
        .toContain(`Drive:    ${after} `)
      writer.stdin.end('\n')
      await writer
      expect(await readFile(join(after, 'begun.txt'), 'utf8')).toBe('begun and ended')
      expect(await bench.bagfs(['umount', after])).toMatchObject({ code: 0 })
      expect(await service.contents()).toEqual({ 'begun.txt': 'begun and ended' })
    } finally {
      for (const path of [before, after]) spawnSync('fusermount', ['-uz', path])
    }
  })

  it('says plainly that there is no drive', async () => {
    const outcome = await bench.bagfs(['umount', bench.mountpoint])
    expect(outcome.code).toBe(2)
    expect(outcome.stderr).toMatch(/^bagfs: .* has no bagfs drive on it\.\n +bagfs status /)
  })

  it.each(['fusermount -u', 'umount', 'umount -f', 'umount -l'])(
    'is what %s does as well: the drive notices, sends what waits and ends',
    async (command) => {
      const drive = await bench.mount('--write-back')
      await drive.sh('echo sent > file.txt')
      // Whatever looks at all mounts of the machine has this one in use for a moment.
      const left = (): Promise<unknown> =>
        outside(`${command} ${bench.mountpoint}`).catch((error: unknown) => String(error))
      await expect.poll(left).toBeUndefined()
      expect(await drive.ended()).toBe(0)
      expect(await bench.service.contents()).toEqual({ 'file.txt': 'sent\n' })
      expect((await bench.bagfs(['status'])).stderr).toBe('No drive is mounted.')
    },
  )

  it.each(['umount -f', 'umount -l', 'fusermount -uz'])(
    'is what %s does as well while a program writes: what it had written is sent',
    async (command) => {
      const drive = await bench.mount('--write-back')
      await expect.poll(() => drive.log).toContain('Mounted at')
      const go = await makePipe()
      const writing = drive.sh(`exec 3> open.txt; echo begun >&3; read -r < ${go}`)
      await expect.poll(() => drive.sh('cat open.txt || true')).toBe('begun\n')
      // `-f` says that the mount is in use, and cuts it off all the same.
      await outside(`${command} ${bench.mountpoint} || true`)
      expect(await drive.ended()).toBe(0)
      expect(drive.isMounted).toBe(false)
      expect(await bench.service.contents()).toEqual({ 'open.txt': 'begun\n' })
      await outside(`echo > ${go}`)
      await writing.catch(() => undefined)
    },
  )
})

describe.runIf(canMount())('bagfs mount', () => {
  it('in the background returns when the drive answers', async () => {
    await bench.service.upload('a.txt', 'a\n')
    const outcome = await bench.mountBy()
    expect(outcome.code).toBe(0)
    expect(outcome.stderr).toMatch(/^Mounted at .* Log: /)
    const { execa } = await import('execa')
    expect((await execa('cat', [join(bench.mountpoint, 'a.txt')])).stdout).toBe('a')
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
  })

  it('in the background names its log when the process of the drive ends before it answers', async () => {
    const ends = join(bench.dir, 'ends.cjs')
    writeFileSync(ends, "if (process.argv.includes('drive-process')) process.exit(9)")
    const { service, mountpoint, stateDir } = bench
    const outcome = await bench.bagfs(
      ['mount', mountpoint, '--url', service.proxy.url, '--state-dir', stateDir],
      { env: { BAGFS_TOKEN: service.token, NODE_OPTIONS: `--require=${ends}` } },
    )
    expect(outcome.code).toBe(1)
    const [said, hint = ''] = outcome.stderr.split('\n')
    expect(said).toBe('bagfs: The drive ended with exit code 9 before it was ready.')
    expect(existsSync(hint.replace('  Its log tells more: ', ''))).toBe(true)
  })

  it('through a symbolic link is found through it again, alive or dead', async () => {
    const link = join(bench.dir, 'link')
    symlinkSync('drive', link)
    const drive = await bench.mount()
    expect((await bench.bagfs(['status', link])).stdout).toContain(bench.mountpoint)
    expect((await bench.bagfs(['umount', link])).code).toBe(0)
    expect(await drive.ended()).toBe(0)
    const dead = await bench.mount()
    dead.signal('SIGKILL')
    await dead.ended()
    expect((await bench.bagfs(['umount', link])).code).toBe(0)
    expect(dead.isMounted).toBe(false)
  })

  it('in the background is in the list of processes without its token', async () => {
    const { proxy, token } = bench.service
    const outcome = await bench.bagfs(
      ['mount', bench.mountpoint, '--url', proxy.url, '--state-dir', bench.stateDir],
      { env: { BAGFS_TOKEN: token, OPENFILES_API_TOKEN: token } },
    )
    expect(outcome.code).toBe(0)
    const { execa } = await import('execa')
    const { stdout } = await execa('ps', ['axeww', '-o', 'args'])
    const drive = stdout
      .split('\n')
      .find((line) => line.includes('drive-process') && line.includes(bench.mountpoint))
    expect(drive).toContain('PATH=')
    // Takes effect here only: 20 MB less memory for as long as the drive is mounted.
    expect(drive).toContain(' --max-semi-space-size=1 ')
    expect(drive).not.toContain(token)
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
  })

  it('refuses a second drive on the same account and names the process of the first', async () => {
    const drive = await bench.mount()
    const other = join(bench.dir, 'other')
    const { execa } = await import('execa')
    await execa('mkdir', [other])
    const outcome = await bench.bagfs(
      ['mount', other, '--url', bench.service.proxy.url, '--state-dir', bench.stateDir],
      { env: { BAGFS_TOKEN: bench.service.token } },
    )
    expect(outcome.code).toBe(7)
    expect(outcome.stderr).toContain(`process ${drive.process.pid ?? 0}`)
    expect(await drive.sh('echo fine > fine.txt; cat fine.txt')).toBe('fine\n')
  })

  it('after a kill -9 takes the state directory over, and finishes the work', async () => {
    const first = await bench.mount('--write-back')
    const heal = bench.service.proxy.add({ match: UPLOAD, fault: { silence: true } })
    await first.sh('echo survived > file.txt')
    await first.kill()
    heal()
    const second = await bench.mount()
    expect(await second.sh('cat file.txt')).toBe('survived\n')
    await expect.poll(() => bench.service.list()).toHaveLength(1)
    expect(await bench.service.contents()).toEqual({ 'file.txt': 'survived\n' })
  })

  it('--read-only refuses every change with EROFS', async () => {
    await bench.service.upload('a.txt', 'a\n')
    const drive = await bench.mount('--read-only')
    for (const change of [
      'echo b > a.txt',
      'echo b > b.txt',
      'rm -f a.txt',
      'mv a.txt b.txt',
      'touch a.txt',
      'chmod 600 a.txt',
      'setfattr -n user.bagfs.kind -v folder a.txt',
      'truncate -s 0 a.txt',
    ]) {
      expect((await drive.fails(change)).stderr, change).toContain('Read-only file system')
    }
    expect(await drive.sh('cat a.txt')).toBe('a\n')
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'a\n' })
  })

  it('--umask, --uid and --gid say what every entry looks like', async () => {
    await bench.service.upload('a.txt', 'a\n')
    const drive = await bench.mount('--umask', '077', '--uid', '1234', '--gid', '2345')
    expect(await drive.sh('stat -c "%a %u %g" . a.txt')).toBe('700 1234 2345\n600 1234 2345\n')
  })

  it('without network shows what the last mount knew, and reads what was read before', async () => {
    await bench.service.upload('read.txt', 'read before\n')
    await bench.service.upload('unread.txt', 'never read\n')
    const first = await bench.mount()
    await first.sh('cat read.txt')
    await first.leave()
    await bench.service.proxy.down()
    const drive = await bench.mount('--timeout', '500ms', '--listing-ttl', '200ms')
    expect(await drive.sh('ls')).toBe('read.txt\nunread.txt\n')
    expect(await drive.sh('cat read.txt')).toBe('read before\n')
    expect((await drive.fails('cat unread.txt')).stderr).toContain('Input/output error')
    await bench.service.upload('new.txt', 'new\n')
    await bench.service.proxy.up()
    await expect.poll(() => drive.sh('ls')).toContain('new.txt')
    expect(await drive.sh('cat unread.txt')).toBe('never read\n')
  })

  it('without network and without an earlier mount says so', async () => {
    await bench.service.proxy.down()
    const outcome = await bench.mountBy()
    expect(outcome.code).toBe(5)
    expect(outcome.stderr).toMatch(/^bagfs: .*nothing answers/)
  })

  it('leaves no process, socket or lock behind when it fails', async () => {
    bench.service.proxy.add({ match: { path: /files_list/ }, fault: { html: true } })
    expect((await bench.mountBy()).code).toBe(1)
    const left = readdirSync(bench.stateDir, { recursive: true, encoding: 'utf8' })
    expect(left.filter((path) => /\/lock$|\.sock$/.test(path))).toEqual([])
    bench.service.proxy.clear()
    expect((await bench.mountBy()).code).toBe(0)
  })
})
