import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

const QUICK = ['--folder-settle', '50ms', '--listing-lag', '1s']
const LONG = { timeout: 20_000, interval: 100 }

describe.runIf(canMount())('a file of a folder that is being written', () => {
  let bench: Bench
  let drive: MountedDrive
  beforeEach(async () => {
    bench = await Bench.start({ capacityBytes: 40e6 })
    mkdirSync(join(bench.dir, 'plain'))
  })
  afterEach(async () => {
    await bench.close()
  })

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
    await expect.poll(stored, LONG).toBe('old:closed\nother:a')
    // Each program closes its copy of the descriptor when it ends; the group has its own.
    const program = '/bin/echo 1; read <&4; /bin/echo 2'
    const groups = `exec 4<&0; (${program}) > F/slow & (${program}) 1<> F/old & wait`
    const writers = execa('bash', ['-c', groups], { cwd: drive.path })
    await expect.poll(() => drive.sh('cat F/slow F/old'), LONG).toBe('1\n1\nosed\n')
    await drive.sh('echo b > F/other')
    await expect.poll(stored, LONG).toBe('old:closed\nother:b')
    writers.stdin.write('\n\n')
    await writers
    await expect.poll(stored, LONG).toBe('old:1\nold:2\nold:ed\nother:b\nslow:1\nslow:2')
    await drive.leave()
  })

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
    await expect.poll(free, { timeout: 30_000 }).toBeGreaterThan(before - 1000)
    expect(await free()).toBeLessThan(before + 1000)
  })
})
