import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, describe, expect, it } from 'vitest'
import { canMount, canMountSmallDisk } from '../support/fuse.ts'
import { Bench, type BenchOptions, type MountedDrive } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

const MEBIBYTE = 2 ** 20
const LARGE_BYTES = 12 * MEBIBYTE
const QUICK = ['--listing-ttl', '50ms', '--folder-settle', '50ms', '--listing-lag', '1s']
const LONG = { timeout: 20_000 }
const UPLOAD = { method: 'POST', path: /folders\/upload/ }
const DOWNLOAD = { method: 'GET', path: /download/ }

describe.runIf(canMount())('a large folder that is sent while it is packed', () => {
  let bench: Bench
  let drive: MountedDrive
  /** Requests before the change. */
  let before: number
  afterEach(async () => {
    await bench.close()
  })

  const plain = (command: string) =>
    execa('bash', ['-ec', command], { cwd: join(bench.dir, 'plain') })
  /** Mounts with the folder stored, and nothing of it on this machine but what `ls` needs. */
  const begin = async (options: BenchOptions = {}, crashAt = 'no.step'): Promise<void> => {
    bench = await Bench.start(options)
    mkdirSync(join(bench.dir, 'plain'))
    writeFileSync(join(bench.dir, 'large'), randomBytes(LARGE_BYTES))
    await plain('mkdir F; cp ../large F/large.bin; echo old > F/small; mkdir F/empty')
    const first = await bench.mount()
    await first.sh('cp -a ../plain/F .')
    await first.leave()
    expect(bench.service.uploads()).toHaveLength(1)
    await execa('bash', ['-ec', 'rm -r $(find state -type d -name cache)'], { cwd: bench.dir })
    drive = await bench.mountKilledAt(crashAt, ...QUICK)
    expect(await drive.sh('ls F')).toBe('empty\nlarge.bin\nsmall\n')
    before = bench.service.proxy.requests.length
  }
  const change = async (): Promise<void> => {
    await plain('echo new > F/small')
    await drive.sh('echo new > F/small')
  }
  const uploadBytes = (): number =>
    bench.service.proxy.requests.slice(before).find(({ method }) => method === 'POST')?.bodyBytes ??
    0
  /** Waits until some of the changed zip is sent: its upload began before the zip was whole. */
  const untilUnderWay = async (): Promise<void> => {
    await expect.poll(uploadBytes, { ...LONG, interval: 5 }).toBeGreaterThan(MEBIBYTE)
    expect(drive.log).not.toContain('step=folder.packed')
    expect(uploadBytes()).toBeLessThan(LARGE_BYTES)
  }
  /** Stops the download of the old zip, and with it the packing of the new one, for a while. */
  const holdUp = (): void => {
    const cut = { cutResponseAfter: 4 * MEBIBYTE }
    bench.service.proxy.add({ match: DOWNLOAD, times: 1, fault: cut })
    bench.service.proxy.add({ match: DOWNLOAD, times: 1, fault: { latencyMs: 3_000 } })
  }
  const checkStored = async (uploads = 2): Promise<void> => {
    expect(bench.service.uploads()).toHaveLength(uploads)
    const records = await bench.service.list()
    expect(records.map(({ filename }) => filename)).toEqual(['F'])
    await unpackFolder(bench.service, 'F', join(bench.dir, 'unpacked'))
    await execa('diff', ['-r', 'plain/F', 'unpacked'], { cwd: bench.dir })
  }
  const checkUntouched = async (): Promise<void> => {
    expect(bench.service.uploads()).toHaveLength(1)
    await unpackFolder(bench.service, 'F', join(bench.dir, 'unpacked'))
    expect((await execa('cat', [join(bench.dir, 'unpacked/small')])).stdout).toBe('old')
  }

  it('arrives once, and whole', async () => {
    await begin()
    holdUp()
    await change()
    await untilUnderWay()
    expect(await drive.sh('getfattr --only-values -n user.bagfs.state F')).toMatch(/^uploading \d/)
    await drive.leave()
    expect(drive.log.indexOf('step=upload.begin')).toBeLessThan(
      drive.log.indexOf('step=folder.packed'),
    )
    await checkStored()
    expect(await bench.service.list()).toHaveLength(1)
    const again = await bench.mount()
    await execa('diff', ['-r', 'plain/F', 'drive/F'], { cwd: bench.dir })
    await again.leave()
  })

  it('leaves nothing at the service when the drive is killed, and arrives after it', async () => {
    await begin()
    holdUp()
    await change()
    await untilUnderWay()
    await drive.kill()
    await checkUntouched()
    drive = await bench.mount(...QUICK)
    expect(await drive.sh('cat F/small')).toBe('new\n')
    await drive.leave()
    await checkStored()
  })

  it.each([
    { title: 'cuts it', fault: { cutRequestAfter: 2 * MEBIBYTE } },
    { title: 'refuses it', fault: { answer: { status: 503 } } },
  ])('is sent once more when the service $title', async ({ fault }) => {
    await begin()
    bench.service.proxy.add({ match: UPLOAD, times: 1, fault })
    await change()
    await expect.poll(() => bench.service.uploads(), LONG).toHaveLength(2)
    await drive.leave()
    await checkStored()
  })

  it('is looked for, and not sent again, when the answer is lost', async () => {
    await begin()
    bench.service.proxy.add({ match: UPLOAD, times: 1, fault: { loseAnswer: true } })
    await change()
    await expect.poll(async () => (await bench.service.list()).length, LONG).toBe(2)
    await expect.poll(async () => (await bench.service.list()).length, LONG).toBe(1)
    await drive.leave()
    await checkStored()
  })

  it('takes what is changed meanwhile with the next zip', async () => {
    await begin()
    holdUp()
    await change()
    await untilUnderWay()
    await plain('echo late > F/late')
    await drive.sh('echo late > F/late')
    await drive.leave()
    await checkStored(3)
  })

  it.runIf(canMountSmallDisk())(
    'goes straight to the service when the disk turns out to have no room for the zip',
    async () => {
      await begin({ stateBytes: 48 * MEBIBYTE })
      const filler = join(bench.stateDir, 'filler')
      writeFileSync(filler, Buffer.alloc(48 * MEBIBYTE - 2 * LARGE_BYTES - 6 * MEBIBYTE))
      holdUp()
      await change()
      await untilUnderWay()
      expect(() => {
        writeFileSync(join(bench.stateDir, 'rest'), Buffer.alloc(48 * MEBIBYTE))
      }).toThrow('ENOSPC')
      await expect.poll(() => drive.log, LONG).toContain('goes straight to the service')
      await drive.leave()
      await checkStored()
    },
  )
})
