import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount, canMountSmallDisk } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

const UPLOAD = { method: 'POST', path: /folders\/upload/ }
const QUICK = ['--listing-ttl', '50ms', '--folder-settle', '50ms', '--listing-lag', '1s']

const FILL_WITH_DIRECTORIES = `
import os
made = 0
try:
    while True:
        os.mkdir(f'F/d{made}'); made += 1
except OSError as e: print(made, os.strerror(e.errno))`

describe.runIf(canMount())('a folder in trouble', () => {
  let bench: Bench
  let drive: MountedDrive
  beforeEach(async () => {
    bench = await Bench.start()
    mkdirSync(join(bench.dir, 'plain'))
  })
  afterEach(async () => {
    await bench.close()
  })

  const plain = (command: string) =>
    execa('bash', ['-ec', command], { cwd: join(bench.dir, 'plain') })
  const compare = (one: string, other: string) =>
    execa('diff', ['-r', '--no-dereference', one, other], { cwd: bench.dir })
  /** The service has the folder once, as the plain directory is, and so shows the next mount. */
  const checkStored = async (name = 'F'): Promise<void> => {
    const records = await bench.service.list()
    expect(records.map(({ filename }) => filename.replace(/\.zip$/, ''))).toEqual([name])
    await unpackFolder(bench.service, records[0]?.filename ?? '', join(bench.dir, 'unpacked'))
    await compare('plain/F', 'unpacked')
    rmSync(bench.stateDir, { recursive: true })
    drive = await bench.mount()
    await drive.sh('ls -F')
    await compare('plain/F', `drive/${name}`)
  }

  it('emptied and refilled while it is packed is stored as it is then', async () => {
    drive = await bench.mount(...QUICK)
    await plain('mkdir F; for i in 1 2; do seq 1 2000000 > F/long$i; done; echo old > F/a')
    await drive.sh('cp -a ../plain/F .')
    const packing = 'find ../state -name content.partial'
    await expect.poll(() => drive.sh(packing), { interval: 5 }).not.toBe('')
    const change = 'rm -r F/*; mkdir F/d; echo new > F/a; echo 1 > F/d/long1'
    await drive.sh(change)
    await plain(change)
    await compare('plain/F', 'drive/F')
    await drive.leave()
    await checkStored()
  })

  it('whose rename the service refused keeps its name, and has it after a remount', async () => {
    drive = await bench.mount(...QUICK)
    await plain('mkdir F; echo a > F/a')
    await drive.sh('cp -a ../plain/F .')
    await expect.poll(() => bench.service.uploads()).toHaveLength(1)
    await drive.leave()
    drive = await bench.mount()
    const stopRefusing = bench.service.proxy.add({
      match: UPLOAD,
      fault: { answer: { status: 422 } },
    })
    await drive.fails('mv F G')
    expect(await drive.sh('ls; cat F/a')).toBe('F\na\n')
    await drive.kill()
    drive = await bench.mount()
    expect(await drive.sh('ls; cat F/a')).toBe('F\na\n')
    stopRefusing()
    await drive.leave()
    await checkStored()
  })

  it('renamed in mode back while the service is away keeps its new name over a remount', async () => {
    drive = await bench.mount(...QUICK)
    await plain('mkdir F; echo a > F/a')
    await drive.sh('cp -a ../plain/F .')
    await expect.poll(() => bench.service.uploads()).toHaveLength(1)
    await drive.leave()
    drive = await bench.mount('--write-back', ...QUICK)
    const stop = bench.service.proxy.add({ match: UPLOAD, fault: { answer: { status: 500 } } })
    await drive.sh('mv F G; echo b > G/b')
    await plain('echo b > F/b')
    await drive.kill()
    drive = await bench.mount('--write-back', ...QUICK)
    expect(await drive.sh('ls; cat G/a G/b')).toBe('G\na\nb\n')
    stop()
    await drive.leave()
    await checkStored('G')
  })

  it('changed before an upload is found again whose answer was lost is stored once', async () => {
    // All changes come within the rest, also on a machine that is busy.
    drive = await bench.mount(...QUICK, '--folder-settle', '2s')
    await drive.sh('mkdir F; echo a > F/a')
    await expect.poll(() => bench.service.uploads()).toHaveLength(1)
    bench.service.proxy.add({ match: UPLOAD, times: 1, fault: { loseAnswer: true } })
    await drive.sh('echo 1 > F/one')
    await expect.poll(() => bench.service.uploads()).toHaveLength(2)
    await drive.sh('echo 2 > F/two; rm F/one; mv F/a F/b')
    await plain('mkdir F; echo a > F/b; echo 2 > F/two')
    await compare('plain/F', 'drive/F')
    await expect.poll(() => bench.service.uploads()).toHaveLength(3)
    await drive.leave()
    expect(bench.service.uploads()).toHaveLength(3)
    expect(bench.service.deletes()).toBe(2)
    await checkStored()
  })

  it('that another client replaces stays readable for who has a file of it open', async () => {
    drive = await bench.mount(...QUICK)
    await drive.sh('mkdir F; seq 1 200000 > F/a; echo old > F/b')
    await expect.poll(() => bench.service.uploads()).toHaveLength(1)
    await drive.leave()
    drive = await bench.mount(...QUICK)
    await plain('mkdir F; echo theirs > F/a; cd F; zip -qr ../theirs.zip .')
    const [old] = await bench.service.list()
    // Each line is read when the next one is asked for.
    const reader = execa(
      'python3',
      [
        '-uc',
        'import os, sys\nfd = os.open("F/a", os.O_RDONLY)\nat = 0\nfor line in sys.stdin:\n  print(os.pread(fd, 100000, at).decode().count("\\n")); at += 100000',
      ],
      { cwd: drive.path, reject: false },
    )
    const ask = async (): Promise<void> => {
      const said = reader.stdout
      const answer = new Promise((resolve) => said.once('data', resolve))
      reader.stdin.write('\n')
      await answer
    }
    await ask()
    const id = await bench.service.upload('F', readFileSync(join(bench.dir, 'plain/theirs.zip')))
    await bench.service.delete(old?.bag_id ?? '')
    await drive.sh('ls F')
    for (let rest = 0; rest < 13; rest += 1) await ask()
    reader.stdin.end()
    const { stdout } = await reader
    const lines = stdout.split('\n').reduce((sum, line) => sum + Number(line), 0)
    expect(lines).toBe(200_000)
    await expect.poll(() => drive.sh('cat F/a; ls F')).toBe('theirs\na\n')
    await drive.leave()
    expect((await bench.service.list()).map(({ bag_id }) => bag_id)).toEqual([id])
  })

  it('that never rests does not keep umount for ever, and nothing that was closed is lost', async () => {
    drive = await bench.mount(...QUICK)
    await drive.sh('mkdir F; echo 0 > F/log')
    await expect.poll(() => bench.service.uploads()).toHaveLength(1)
    let written = ''
    const writer = execa(
      'bash',
      [
        '-c',
        'i=0; while echo $((i + 1)) > drive/F/log; do i=$((i + 1)); echo $i; done 2>/dev/null',
      ],
      { cwd: bench.dir, reject: false },
    )
    writer.stdout.on('data', (text: Buffer) => (written += text.toString()))
    await expect.poll(() => written.length).toBeGreaterThan(100)
    drive.signal('SIGTERM')
    await drive.ended()
    writer.kill('SIGKILL')
    const last = Number((await writer).stdout.trim().split('\n').at(-1))
    drive = await bench.mount()
    const log = Number(await drive.sh('cat F/log'))
    expect(log).toBeGreaterThanOrEqual(last)
    await drive.leave()
    await plain(`mkdir F; echo ${log} > F/log`)
    await checkStored()
  })
})

describe.runIf(canMountSmallDisk())('a full local disk under a folder', () => {
  it('is told, leaves old content as it was, and the folder goes on', async () => {
    const bench = await Bench.start({ stateBytes: 24 * 1024 * 1024 })
    try {
      const drive = await bench.mount('--folder-settle', '1h')
      await drive.sh('mkdir F; echo old > F/old; seq 1 1000 > F/rest')
      expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
      const large = join(bench.dir, 'large')
      writeFileSync(large, Buffer.alloc(40 * 1024 * 1024, 'large'))
      for (const name of ['old', 'new']) {
        const { stderr } = await drive.fails(`cp ${large} F/${name}`)
        expect(stderr).toContain('No space left on device')
      }
      expect(await drive.sh('cat F/old; ls F')).toBe('old\nold\nrest\n')
      const fill = join(bench.stateDir, 'fill')
      await execa('dd', ['if=/dev/zero', `of=${fill}`, 'bs=64k'], { reject: false })
      truncateSync(fill, statSync(fill).size - 16 * 1024)
      // The journal is cut where the disk was full, and nothing of a line that failed is left in it.
      const made = await execa('python3', ['-c', FILL_WITH_DIRECTORIES], { cwd: drive.path })
      expect(made.stdout).toMatch(/^[1-9]\d+ No space left on device$/)
      const shown = await drive.sh('ls F')
      rmSync(fill)
      await drive.sh('echo changed >> F/old; echo after > F/after')
      await drive.kill()
      const after = await bench.mount(...QUICK)
      expect((await after.sh('ls F')).split('\n')).toEqual(['after', ...shown.split('\n')])
      expect(await after.sh('cat F/old F/after; wc -l < F/rest')).toBe(
        'old\nchanged\nafter\n1000\n',
      )
      await after.leave()
      const [record] = await bench.service.list()
      await unpackFolder(bench.service, record?.filename ?? '', join(bench.dir, 'unpacked'))
      const unpacked = execFileSync('ls', [join(bench.dir, 'unpacked')], { encoding: 'utf8' })
      expect(unpacked).toBe(`after\n${shown}`)
    } finally {
      await bench.close()
    }
  })
})
