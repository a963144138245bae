import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { describe, expect, it } from 'vitest'
import { deferred } from '../../src/domain/deferred.ts'
import { canMount } from '../support/fuse.ts'
import { HANGING_MS, MountedDrive, TestService } from '../support/mounted-drive.ts'
import { PROGRAM } from '../support/service-process.ts'
import { unpackFolder } from '../support/unpacked.ts'
import { placesIn } from '../support/places.ts'

/** What is done in a drive and in a plain directory; each may be done again from the start. */
interface Work {
  readonly title: string
  /** Stored before. */
  readonly given?: string
  readonly command: string
  readonly steps: readonly string[]
}

const MAKE_TREE =
  'mkdir -p src/sub/deep; for i in $(seq 18); do echo "file $i" > src/f$i; done; echo s > src/sub/s; echo d > src/sub/deep/d; ln -s ../f1 src/sub/link; chmod 640 src/f2; touch -d 2024-02-03 src/f3'

const STEPS = [
  ...['add.written', 'update.written:1', 'update.written:2', 'update.written:3'],
  ...['update.written:4', 'folder.packed', 'upload.begin', 'upload.answered', 'cache.taken'],
]

const WORKS: readonly Work[] = [
  { title: 'cp -a of 20 files', command: 'cp -aT ../src F', steps: STEPS },
  {
    title: 'edits in a stored folder',
    given: 'cp -a ../src F',
    command:
      'echo more > F/f1; rm -f F/f5; mkdir -p F/new; [ -e F/new/f6 ] || mv F/f6 F/new/f6; cp -p ../src/f7 F/tmp~; mv F/tmp~ F/f8; chmod 600 F/f9; ln -sfn f1 F/l; echo end > F/sub/deep/e',
    steps: [...STEPS, 'delete.answered', 'folder.led'],
  },
]

const GONE = { status: 404 }

/** A folder is sent by a sync and on leaving only: how fast it is filled says nothing of how often it is sent. */
const UNSENT = [undefined, '--folder-settle', '1h'] as const

class Run {
  readonly dir: string
  readonly service: TestService
  readonly #drives: MountedDrive[] = []

  private constructor(dir: string, service: TestService) {
    this.dir = dir
    this.service = service
  }

  static async start(): Promise<Run> {
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-folder-crash-'))
    const run = new Run(dir, await TestService.start(join(dir, 'service')))
    mkdirSync(join(dir, 'plain'))
    await run.plain(`cd ..; ${MAKE_TREE}`)
    return run
  }

  async mount(crashAt?: string, ...args: string[]): Promise<MountedDrive> {
    const { service, dir } = this
    const drive = await MountedDrive.mount(
      { url: service.proxy.url, token: service.token },
      { mountpoint: join(dir, 'drive'), stateDir: join(dir, 'state') },
      ['--listing-ttl', '60s', '--folder-settle', '50ms', ...args],
      crashAt === undefined ? {} : { BAGFS_CRASH_AT: crashAt },
    )
    this.#drives.push(drive)
    return drive
  }

  async plain(command: string): Promise<void> {
    await execa('bash', ['-ec', command], { cwd: join(this.dir, 'plain') })
  }

  sync(drive: MountedDrive) {
    const env = placesIn(this.dir)
    return execa(process.execPath, [PROGRAM, 'sync', drive.path], { env, reject: false })
  }

  async compare(one: string, other: string): Promise<void> {
    const list = `find . -mindepth 1 -printf '%P %y %m %l\\n' | sort`
    const options = { cwd: this.dir }
    await execa('diff', ['-r', '--no-dereference', one, other], options)
    const trees = await Promise.all(
      [one, other].map((dir) => execa('bash', ['-ec', `cd ${dir}; ${list}`], options)),
    )
    expect(trees[1]?.stdout).toBe(trees[0]?.stdout)
  }

  async end(): Promise<void> {
    for (const drive of this.#drives) await drive.kill()
    await this.service.close()
    rmSync(this.dir, { recursive: true, force: true })
  }
}

async function died(drive: MountedDrive): Promise<boolean> {
  const { process } = drive
  if (process.exitCode === null && process.signalCode === null) {
    await once(process, 'exit', { signal: AbortSignal.timeout(HANGING_MS) })
  }
  return process.signalCode === 'SIGKILL'
}

/** Appends to a file, or writes it anew, and keeps it open; a shell would close a copy of its descriptor. */
function holdOpen(drive: MountedDrive, path: string, text: string, flag = 'O_APPEND') {
  const program = `import os,sys,time; fd = os.open(sys.argv[1], os.O_CREAT | os.${flag} | os.O_WRONLY); os.write(fd, sys.argv[2].encode()); time.sleep(60)`
  return execa('python3', ['-c', program, path, text], { cwd: drive.path, reject: false })
}

/** Kills the drive at a step of the work, and lets the next mount do it to its end. */
async function crash({ given, command }: Work, step: string): Promise<void> {
  const run = await Run.start()
  try {
    if (given !== undefined) {
      await run.plain(given)
      const before = await run.mount()
      await before.sh(given)
      await before.leave()
    }
    await run.plain(command)
    const drive = await run.mount(step)
    const isDone = await drive.sh(command).then(
      () => true,
      () => false,
    )
    expect(await died(drive)).toBe(true)
    await drive.kill()
    const after = await run.mount()
    // What was told to be done is there; what was not is done again.
    if (!isDone) await after.sh(command)
    await run.compare('plain/F', 'drive/F')
    expect(await after.sh('ls')).toBe('F\n')
    await after.leave()
    expect((await run.service.list()).map(({ filename }) => filename)).toHaveLength(1)
    await unpackFolder(run.service, 'F', join(run.dir, 'unpacked'))
    await run.compare('plain/F', 'unpacked')
    // Once for each work another machine, too; what the zip holds Info-ZIP has told of each.
    if (step !== 'upload.answered') return
    rmSync(join(run.dir, 'state'), { recursive: true })
    await run.mount()
    await run.compare('plain/F', 'drive/F')
  } finally {
    await run.end()
  }
}

describe.runIf(canMount())('a drive killed while a folder is stored', () => {
  for (const work of WORKS) {
    it.concurrent.each(work.steps)(`loses nothing of ${work.title}, at %s`, (step) =>
      crash(work, step),
    )
  }

  it.each([
    { title: 'is slow to come', later: { latencyMs: 1_500 } },
    { title: 'is gone', later: { answer: { status: 404 } } },
  ])('loses nothing when the zip of before $title and a new one was sent', async ({ later }) => {
    const run = await Run.start()
    try {
      const first = await run.mount(undefined, '--folder-settle', '30s')
      await first.sh('cp -a ../src F')
      await first.leave()
      const [base] = await run.service.list()
      const sending = deferred()
      const mayPass = deferred()
      const before = (): Promise<void> => {
        sending.resolve()
        return mayPass.promise
      }
      const match = { method: 'POST', path: /upload/ }
      run.service.proxy.add({ match, times: 1, fault: { before } })
      const drive = await run.mount('upload.answered', '--folder-settle', '1h')
      await drive.sh('echo 1 > F/one; for i in $(seq 40); do echo $i > F/sent$i; done')
      const synced = run.sync(drive)
      await sending.promise
      await drive.sh('echo 2 > F/two')
      mayPass.resolve()
      expect(await died(drive)).toBe(true)
      await synced
      await drive.kill()
      await execa('bash', ['-ec', 'rm -r $(find state -type d -name cache)'], { cwd: run.dir })
      const path = new RegExp(base?.bag_id ?? '')
      run.service.proxy.add({ match: { method: 'GET', path }, times: 1, fault: { answer: GONE } })
      run.service.proxy.add({ match: { method: 'GET', path }, fault: later })
      const after = await run.mount()
      await run.plain(
        'cp -a ../src F; echo 1 > F/one; for i in $(seq 40); do echo $i > F/sent$i; done; echo 2 > F/two',
      )
      await expect.poll(() => after.sh('cat F/two').catch(String)).toBe('2\n')
      await run.compare('plain/F', 'drive/F')
      await expect.poll(() => run.service.uploads()).toHaveLength(3)
      await run.compare('plain/F', 'drive/F')
      await after.leave()
      expect(run.service.uploads()).toHaveLength(3)
      expect((await run.service.list()).map(({ filename }) => filename)).toHaveLength(1)
      await unpackFolder(run.service, 'F', join(run.dir, 'unpacked'))
      await run.compare('plain/F', 'unpacked')
    } finally {
      await run.end()
    }
  })

  it('leaves nothing at the service that is not whole, and sends it once after a kill', async () => {
    const run = await Run.start()
    try {
      await run.plain('cp -a ../src F; head -c 2000000 /dev/urandom > F/large')
      const first = await run.mount(...UNSENT)
      await first.sh('cp -a ../plain/F .')
      await first.leave()
      const stored = await run.service.list()
      const drive = await run.mount(...UNSENT)
      const act = (): void => {
        drive.process.kill('SIGKILL')
      }
      const match = { method: 'POST', path: /upload/ }
      run.service.proxy.add({ match, times: 1, fault: { at: { moment: 'sending', act } } })
      await run.plain('echo new > F/f1')
      await drive.sh('echo new > F/f1')
      await run.sync(drive)
      expect(await died(drive)).toBe(true)
      await drive.kill()
      expect(await run.service.list()).toEqual(stored)
      const after = await run.mount(...UNSENT)
      await run.compare('plain/F', 'drive/F')
      await after.leave()
      expect(run.service.uploads()).toHaveLength(2)
      expect(await run.service.list()).toHaveLength(1)
      await unpackFolder(run.service, 'F', join(run.dir, 'unpacked'))
      await run.compare('plain/F', 'unpacked')
    } finally {
      await run.end()
    }
  })

  it('content of a killed program never gets into a new file', async () => {
    const run = await Run.start()
    try {
      const drive = await run.mount()
      await drive.sh('mkdir F; echo kept > F/kept')
      const writer = holdOpen(drive, 'F/open', 'x'.repeat(1000))
      await expect.poll(() => drive.sh('stat -c %s F/open')).toBe('1000\n')
      await drive.kill()
      writer.kill('SIGKILL')
      await writer
      const after = await run.mount()
      await after.sh('printf short > F/new')
      expect(await after.sh('cat F/new; ls F')).toBe('shortkept\nnew\n')
    } finally {
      await run.end()
    }
  })

  it('a file that is written anew stays as it was closed until it is closed again', async () => {
    const run = await Run.start()
    try {
      const drive = await run.mount(undefined, '--folder-settle', '60s')
      await drive.sh('mkdir F; echo first > F/a; echo closed > F/a')
      const writer = holdOpen(drive, 'F/a', 'half', 'O_TRUNC')
      await expect.poll(() => drive.sh('cat F/a')).toBe('half')
      await drive.kill()
      writer.kill('SIGKILL')
      await writer
      const after = await run.mount()
      expect(await after.sh('cat F/a')).toBe('closed\n')
      await after.leave()
      await unpackFolder(run.service, 'F', join(run.dir, 'unpacked'))
      expect((await execa('cat', [join(run.dir, 'unpacked/a')])).stdout).toBe('closed')
    } finally {
      await run.end()
    }
  })

  it('a file that is being written when its folder is stored stays as it was closed', async () => {
    const run = await Run.start()
    try {
      const drive = await run.mount()
      await drive.sh('mkdir F; echo old > F/log; echo 1 > F/other')
      await expect.poll(() => run.service.uploads()).toHaveLength(1)
      const writer = holdOpen(drive, 'F/log', 'new\n')
      await expect.poll(() => drive.sh('cat F/log')).toBe('old\nnew\n')
      await drive.sh('echo 2 > F/other')
      await expect.poll(() => run.service.deletes()).toBe(1)
      await unpackFolder(run.service, 'F', join(run.dir, 'unpacked'))
      expect((await execa('cat', [join(run.dir, 'unpacked/log')])).stdout).toBe('old')
      await drive.kill()
      writer.kill('SIGKILL')
      await writer
      const after = await run.mount()
      expect(await after.sh('cat F/log F/other')).toBe('old\n2\n')
    } finally {
      await run.end()
    }
  })

  it('a folder that somebody else replaced meanwhile is kept beside ours', async () => {
    const run = await Run.start()
    try {
      const drive = await run.mount(undefined, '--folder-settle', '1s', '--listing-ttl', '50ms')
      await drive.sh('mkdir F; echo old > F/a')
      await expect.poll(() => run.service.uploads()).toHaveLength(1)
      const [record] = await run.service.list()
      const bagId = record?.bag_id ?? ''
      await run.plain('mkdir G; echo theirs > G/theirs; cd G; zip -qr ../g.zip .')
      const theirs = readFileSync(join(run.dir, 'plain/g.zip'))
      await drive.sh('echo ours > F/ours')
      const id = await run.service.upload('F', theirs)
      await run.service.delete(bagId)
      await drive.leave()
      const left = await run.service.list()
      expect(left.map(({ filename }) => filename.replace(/\.zip$/, ''))).toEqual(['F', 'F'])
      expect(left.map(({ bag_id }) => bag_id)).toContain(id)
      const after = await run.mount(undefined, '--listing-ttl', '50ms')
      expect(await after.sh('ls -F; cat */a */ours */theirs')).toContain('old\nours\ntheirs\n')
    } finally {
      await run.end()
    }
  })

  it('directories looked into and folders renamed while they are stored stay whole', async () => {
    const run = await Run.start()
    try {
      const first = await run.mount()
      await first.sh('cp -a ../src F')
      await first.leave()
      rmSync(join(run.dir, 'state'), { recursive: true })
      run.service.proxy.add({
        match: { method: 'POST', path: /upload/ },
        fault: { latencyMs: 1_000 },
      })
      const drive = await run.mount()
      run.service.forgetEvents()
      const uploads = () =>
        run.service.proxy.requests.filter(({ method }) => method === 'POST').length
      // A machine that is busy may have stored a part of the folder before the rest.
      const before = uploads()
      // What it is, is known once its first bytes are here, on a busy machine later than a lookup waits.
      await expect.poll(() => drive.sh('stat -c %F F')).toContain('directory')
      await drive.sh('echo 1 > F/one')
      await expect.poll(uploads).toBeGreaterThan(before)
      await drive.sh('cat F/sub/s F/sub/deep/d; echo 2 > F/two; mv F G; echo 3 > G/sub/deep/three')
      await run.plain(
        'cp -a ../src F; for i in 1:one 2:two 3:sub/deep/three; do echo ${i%:*} > F/${i#*:}; done',
      )
      await run.compare('plain/F', 'drive/G')
      await drive.leave()
      expect((await run.service.list()).map(({ filename }) => filename)).toHaveLength(1)
      await unpackFolder(run.service, 'G', join(run.dir, 'unpacked'))
      await run.compare('plain/F', 'unpacked')
    } finally {
      await run.end()
    }
  })
})
