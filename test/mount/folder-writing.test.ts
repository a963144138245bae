import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'
import { unpackFolder } from '../support/unpacked.ts'

const QUICK = ['--folder-settle', '50ms', '--listing-lag', '1s']

describe.runIf(canMount())('a file of a folder that is being written', () => {
  let bench: Bench
  let drive: MountedDrive
  const open: OpenFile[] = []
  beforeEach(async () => {
    bench = await Bench.start({ capacityBytes: 40e6 })
    mkdirSync(join(bench.dir, 'plain'))
  })
  afterEach(async () => {
    for (const file of open.splice(0)) file.end()
    await bench.close()
  })

  const openNow = async (path: string, flags: string): Promise<OpenFile> => {
    const file = await OpenFile.open(join(drive.path, path), flags)
    open.push(file)
    return file
  }

  /** What the service has in the zip of F, a line for each file and its content. */
  const stored = async (): Promise<string> => {
    const unpacked = join(bench.dir, 'unpacked')
    try {
      await unpackFolder(bench.service, 'F', unpacked)
    } catch (error) {
      return String(error)
    }
    return (await execa('bash', ['-c', 'grep -r "" * | sort'], { cwd: unpacked })).stdout
  }

  it('is stored when the last of those who write it has closed it', async () => {
    drive = await bench.mount(...QUICK)
    await drive.sh('mkdir F; echo closed > F/old; echo a > F/other')
    await expect.poll(stored).toBe('old:closed\nother:a')
    // Each program closes its copy of the descriptor when it ends; the group has its own.
    const program = '/bin/echo 1; read <&4; /bin/echo 2'
    const groups = `exec 4<&0; (${program}) > F/slow & (${program}) 1<> F/old & wait`
    const writers = execa('bash', ['-c', groups], { cwd: drive.path })
    await expect.poll(() => drive.sh('cat F/slow F/old')).toBe('1\n1\nosed\n')
    await drive.sh('echo b > F/other')
    await expect.poll(stored).toBe('old:closed\nother:b')
    writers.stdin.write('\n\n')
    await writers
    await expect.poll(stored).toBe('old:1\nold:2\nold:ed\nother:b\nslow:1\nslow:2')
    await drive.leave()
  })

  it.each(['is closed', 'is left by a kill of the drive'])(
    'is stored when it %s, also when its folder was found to have nothing else',
    async (how) => {
      drive = await bench.mount(...QUICK)
      // The program closes its copy of the descriptor when it ends; the group has its own.
      const group = 'mkdir F; exec 4<&0; (/bin/echo 1; read <&4) > F/only'
      const writer = execa('bash', ['-c', group], { cwd: drive.path, reject: false })
      await expect.poll(() => drive.sh('cat F/only || true')).toBe('1\n')
      await bench.bagfs(['sync', bench.mountpoint])
      if (how !== 'is closed') await drive.kill()
      writer.stdin.write('\n')
      await writer
      if (how !== 'is closed') drive = await bench.mount(...QUICK)
      await expect.poll(stored).toBe('1')
    },
  )

  it.each(['is closed', 'is left by a kill of the drive'])(
    'is stored under a new name with what was closed, as is what it takes the place of, until it %s',
    async (how) => {
      drive = await bench.mount(...QUICK)
      await drive.sh(
        'mkdir F; echo old > F/f; echo target > F/g; echo target > F/h; echo a > F/other',
      )
      await expect.poll(stored).toBe('f:old\ng:target\nh:target\nother:a')
      await drive.sh('echo newer > F/h')
      const over = await openNow('F/f', 'os.O_WRONLY | os.O_TRUNC')
      const made = await openNow('F/made', 'os.O_CREAT | os.O_WRONLY')
      const also = await openNow('F/also', 'os.O_CREAT | os.O_WRONLY')
      for (const file of [over, made, also]) await file.write('half')
      await drive.sh('mv F/f F/renamed; mv F/made F/g; mv F/also F/h; echo b > F/other')
      expect(await drive.sh('cat F/renamed F/g F/h')).toBe('halfhalfhalf')
      await expect.poll(stored).toBe('g:target\nh:newer\nother:b\nrenamed:old')
      if (how === 'is closed') {
        for (const file of [over, made, also]) expect(await file.close()).toBe('ok None')
        await expect.poll(stored).toBe('g:half\nh:half\nother:b\nrenamed:half')
        expect(await drive.sh('cat F/renamed F/g F/h')).toBe('halfhalfhalf')
      } else {
        await drive.kill()
        drive = await bench.mount(...QUICK)
        expect(await drive.sh('cat F/renamed F/g F/h')).toBe('old\ntarget\nnewer\n')
      }
      await drive.leave()
    },
  )

  it('gives its room back exactly, unlinked, cut, or written while the folder is stored', async () => {
    drive = await bench.mount(...QUICK)
    await drive.sh('mkdir w; echo kept > w/kept')
    const free = () => drive.sh('df --output=avail -B1 . | tail -1').then(Number)
    const settled = async (): Promise<void> => {
      expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    }
    await settled()
    const before = await free()
    const write = 'head -c 5000000 /dev/zero'
    // Five of them are more than the account holds.
    for (let time = 0; time < 5; time += 1) {
      await drive.sh(`exec 3>w/t; rm w/t; ${write} >&3; ${write} >&3; exec 3>&-`)
      await drive.sh(`exec 3<>w/u; ${write} >&3; rm w/u; truncate -s 0 /dev/fd/3; exec 3>&-`)
    }
    expect(await free()).toBe(before)
    await drive.sh(`${write} > w/a; ${write} > w/b`)
    const storing = settled()
    await drive.sh(`echo 1 >> w/a; ${write} >> w/b; ${write} > w/c; echo 2 >> w/b`)
    await storing
    await drive.sh('rm w/a w/b w/c')
    await settled()
    // The account is asked every ten seconds.
    await expect.poll(free).toBeGreaterThan(before - 1000)
    expect(await free()).toBeLessThan(before + 1000)
  })

  describe('in place, although it was closed and is large', () => {
    /** Long enough for the changes to come before the folder is first stored. */
    const RESTING = ['--folder-settle', '2s', '--listing-lag', '1s']
    const LENGTH = 3_000_000
    let closed: Buffer
    beforeEach(() => {
      closed = randomBytes(LENGTH)
      writeFileSync(join(bench.dir, 'closed'), closed)
    })
    const inDrive = (folder = 'F'): Buffer => readFileSync(join(drive.path, folder, 'large'))
    /** Closes the large file, and changes it then in each way that there is. */
    const change = async (): Promise<OpenFile> => {
      await drive.sh('mkdir -p F; cp ../closed F/large; echo a > F/other')
      const file = await openNow('F/large', 'os.O_RDWR')
      expect(await file.writeAt(1_500_000, 'changed in the middle')).toBe('ok 21')
      expect(await file.writeAt(1_500_010, 'twice')).toBe('ok 5')
      expect(await file.writeAt(LENGTH - 3, 'appended')).toBe('ok 8')
      expect(await file.truncate(2_000_000)).toBe('ok None')
      expect(await file.writeAt(2_500_000, 'beyond')).toBe('ok 6')
      return file
    }
    const changed = (): Buffer => {
      const content = Buffer.alloc(2_500_006)
      closed.copy(content, 0, 0, 2_000_000)
      content.write('changed in the middle', 1_500_000)
      content.write('twice', 1_500_010)
      content.write('beyond', 2_500_000)
      return content
    }
    /** What the service has of the large file, once it has the other one as it is now. */
    const storedWith = async (other: string, folder = 'F'): Promise<Buffer> => {
      const unpacked = join(bench.dir, 'unpacked')
      const storedOther = async (): Promise<string> => {
        await unpackFolder(bench.service, folder, unpacked).catch(() => undefined)
        return readFileSync(join(unpacked, 'other'), 'utf8')
      }
      await expect.poll(() => storedOther().catch(String)).toBe(`${other}\n`)
      return readFileSync(join(unpacked, 'large'))
    }

    it('is stored as it was closed or synced, until it is again', async () => {
      drive = await bench.mount(...RESTING)
      const file = await change()
      expect((await storedWith('a')).equals(closed)).toBe(true)
      expect(inDrive().equals(changed())).toBe(true)
      await file.writeAt(0, 'once more')
      await drive.sh('echo b > F/other')
      expect((await storedWith('b')).equals(closed)).toBe(true)
      expect(await file.sync()).toBe('ok None')
      const synced = inDrive()
      await file.writeAt(0, 'after the sync')
      await drive.sh('echo c > F/other')
      expect((await storedWith('c')).equals(synced)).toBe(true)
      expect(await file.close()).toBe('ok None')
      await drive.sh('echo d > F/other')
      expect((await storedWith('d')).subarray(0, 14).toString()).toBe('after the sync')
      await drive.leave()
    })

    it.each(['no.step', 'folder.split', 'folder.repeated', 'folder.packed', 'upload.answered'])(
      'is as it was closed when the drive is killed at %s',
      async (step) => {
        drive = await bench.mountKilledAt(step, '--folder-settle', '1h')
        await change()
        const unclosed = await openNow('F/made', 'os.O_CREAT | os.O_WRONLY')
        await unclosed.write('of a file that was renamed')
        await drive.sh('mv F/made F/renamed')
        const folder = step === 'no.step' ? 'F' : 'G'
        if (step !== 'no.step') {
          // A new name lets the folder be packed at once, and closes nothing.
          await drive.sh('mv F G').catch(() => undefined)
          await drive.ended()
        }
        await drive.kill()
        drive = await bench.mount(...RESTING)
        expect(inDrive(folder).equals(closed)).toBe(true)
        expect(await drive.sh(`cat ${folder}/renamed`)).toBe('of a file that was renamed')
        await drive.leave()
        expect((await storedWith('a', folder)).equals(closed)).toBe(true)
      },
    )

    it('is as it was synced when the drive is killed while it is written on', async () => {
      drive = await bench.mount(...RESTING)
      const file = await change()
      expect(await file.sync()).toBe('ok None')
      await file.writeAt(0, 'after the sync')
      await drive.kill()
      drive = await bench.mount(...RESTING)
      expect(inDrive().equals(changed())).toBe(true)
      await drive.leave()
    })
  })
})
