import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount, canMountSmallDisk } from '../support/fuse.ts'
import { Bench, type BenchOptions, type MountedDrive } from '../support/mounted-drive.ts'

const MEBIBYTE = 2 ** 20
const UPLOAD = { method: 'POST', path: /upload/ }
const DOWNLOAD = { path: /download/ }

const sumOf = (content: Uint8Array): string => createHash('sha256').update(content).digest('hex')

/** Takes away what was cached; the drive is not running. */
function clearCache(stateDir: string): void {
  for (const { name } of readdirSync(stateDir, { withFileTypes: true }).filter((entry) =>
    entry.isDirectory(),
  )) {
    rmSync(join(stateDir, name, 'cache'), { recursive: true, force: true })
  }
}

/** Directories of intents and drafts that the outbox holds. */
function outboxEntries(stateDir: string): readonly string[] {
  return readdirSync(stateDir, { recursive: true, encoding: 'utf8' }).filter((path) =>
    /outbox\/v1\/[^/]+$/.test(path),
  )
}

let bench: Bench
async function begin(options: BenchOptions = {}): Promise<Bench> {
  bench = await Bench.start(options)
  return bench
}
afterEach(async () => {
  await bench.close()
})

describe.runIf(canMount())('a download that goes wrong', () => {
  beforeEach(async () => {
    await begin()
  })

  it('of a bag that is gone while it is listed fails, and everything else works', async () => {
    await bench.close()
    const record = { filename: 'gone.txt', size: 5, uploaded_at: 1, description: '' }
    await begin({ extraRecords: () => [{ ...record, bag_id: 'f'.repeat(64) }] })
    await bench.service.upload('here.txt', 'here\n')
    const drive = await bench.mount()
    expect(await drive.sh('ls')).toBe('gone.txt\nhere.txt\n')
    expect((await drive.fails('cat gone.txt')).stderr).toContain('No such file or directory')
    expect(await drive.sh('cat here.txt')).toBe('here\n')
  })

  it.each([[], ['--write-back']])(
    'of a bag that is gone at the service is not needed to rename what is in the cache (%s)',
    async (...args) => {
      const read = await bench.service.upload('read.txt', 'read before\n')
      const lost = await bench.service.upload('unread.txt', 'never read\n')
      const drive = await bench.mount('--listing-ttl', '60s', ...args)
      await drive.sh('cat read.txt')
      for (const id of [read, lost]) await bench.service.delete(id)
      await drive.sh('mv read.txt kept.txt')
      await expect.poll(() => bench.service.contents()).toEqual({ 'kept.txt': 'read before\n' })
      if (args.length === 0) {
        const { stderr } = await drive.fails('mv unread.txt other.txt')
        expect(stderr).toContain('No such file or directory')
        expect(await drive.sh('ls')).toBe('kept.txt\nunread.txt\n')
        return
      }
      await drive.sh('mv unread.txt other.txt')
      await expect
        .poll(() => drive.sh('getfattr --only-values -n user.bagfs.state other.txt'))
        .toBe(
          'failed: Its content is gone at the service, so it cannot be stored under another name (waits for you)',
        )
      await drive.sh('rm other.txt')
      expect(await drive.sh('ls')).toBe('kept.txt\n')
    },
  )

  it.each([
    { how: 'is cut once', fault: { cutResponseAfter: 400_000 }, times: 1 },
    {
      how: 'is cut each time it has moved a little',
      fault: { cutResponseAfter: 700_000 },
      times: 9,
    },
    {
      how: 'is cut and knows no ranges',
      fault: { cutResponseAfter: 600_000, noRanges: true },
      times: 2,
    },
    { how: 'stands still', fault: { stallResponseAfter: 300_000 }, times: 2 },
    { how: 'is shorter than it said', fault: { wrongLength: 1_000 }, times: 1 },
    { how: 'does not say how long it is', fault: { noLength: true }, times: 9 },
    { how: 'meets 503 first', fault: { answer: { status: 503 } }, times: 3 },
  ])('reaches the reader whole when it $how', async ({ fault, times }) => {
    const content = randomBytes(3_000_000)
    await bench.service.upload('file.bin', content)
    const drive = await bench.mount('--timeout', '300ms')
    bench.service.proxy.add({ match: DOWNLOAD, times, fault })
    expect(await drive.sh('sha256sum < file.bin')).toBe(`${sumOf(content)}  -\n`)
  })

  it.each([
    { how: 'shorter than it said', fault: { wrongLength: 1_000, noRanges: true } },
    { how: 'refused', fault: { answer: { status: 500 } } },
    { how: 'a web page', fault: { html: true } },
  ])('is an error and no wrong bytes when it is $how each time', async ({ how, fault }) => {
    await bench.service.upload('file.bin', randomBytes(300_000))
    await bench.service.upload('other.txt', 'other\n')
    const drive = await bench.mount('--timeout', '300ms')
    const remove = bench.service.proxy.add({ match: DOWNLOAD, fault })
    const { stderr } = await drive.fails('cat file.bin > /dev/null')
    expect(stderr, how).toMatch(/Input\/output error|Connection timed out/)
    remove()
    expect(await drive.sh('cat other.txt')).toBe('other\n')
    // What came is put aside first, which waits for the disk.
    await expect.poll(() => drive.sh('stat -c %s file.bin')).toBe('300000\n')
    // The first reader after a service that lied may be told that the content changed.
    await expect.poll(() => drive.sh('cat file.bin | wc -c || true')).toBe('300000\n')
  })

  it.each([
    { what: 'all of it', look: 'cat ours.bin' },
    { what: 'its beginning', look: 'head -c 1000 ours.bin' },
  ])('is not what the kernel goes on with when it was wrong once: $what', async ({ look }) => {
    const first = await bench.mount()
    await first.sh('head -c 3000000 /dev/urandom > ours.bin')
    await first.leave()
    clearCache(bench.stateDir)
    const content = await bench.service.contentOf('ours.bin')
    const drive = await bench.mount()
    bench.service.proxy.add({ match: DOWNLOAD, times: 1, fault: { wrongByteAt: 10 } })
    await drive.sh(`${look} > /dev/null || true`)
    // The reader while it is found out is told an error.
    const sum = () => drive.sh('sha256sum < ours.bin || echo error')
    const sums = [await sum(), await sum(), await sum()].filter((told) => told !== 'error\n')
    expect(sums.length).toBeGreaterThan(1)
    expect(new Set(sums)).toEqual(new Set([`${sumOf(content)}  -\n`]))
  })

  it.each([-1_000, 1_000])(
    'is an error and no wrong bytes when its length is off by %i and we know it',
    async (wrongLength) => {
      const first = await bench.mount()
      await first.sh('head -c 300000 /dev/urandom > ours.bin; sha256sum < ours.bin')
      await first.leave()
      clearCache(bench.stateDir)
      const content = await bench.service.contentOf('ours.bin')
      const drive = await bench.mount('--timeout', '2s')
      const remove = bench.service.proxy.add({ match: DOWNLOAD, fault: { wrongLength } })
      expect((await drive.fails('cat ours.bin')).stderr).toContain('Input/output error')
      remove()
      await expect
        .poll(() => drive.sh('sha256sum < ours.bin || true'))
        .toBe(`${sumOf(content)}  -\n`)
    },
  )
})

describe.runIf(canMount())('content that is not what was written here', () => {
  it('is set aside, with both sums in the log, and downloaded once more before it is an error', async () => {
    await begin()
    const first = await bench.mount()
    await first.sh('head -c 3000 /dev/urandom > ours.bin')
    await first.leave()
    clearCache(bench.stateDir)
    const content = await bench.service.contentOf('ours.bin')
    const wrong = Buffer.from(content)
    wrong.writeUInt8(wrong.readUInt8(1_000) ^ 1, 1_000)
    const { proxy } = bench.service
    const remove = proxy.add({ match: DOWNLOAD, fault: { wrongByteAt: 1_000 } })
    const drive = await bench.mount()
    expect((await drive.fails('cat ours.bin')).stderr).toContain('Input/output error')
    const downloads = proxy.requests.filter(({ fault }) => fault !== undefined)
    // Two for each read that the kernel makes of it.
    expect(downloads.length).toBeGreaterThan(0)
    expect(downloads.length % 2).toBe(0)
    remove()
    const files = readdirSync(bench.stateDir, { recursive: true, encoding: 'utf8' })
    const aside = files.filter((path) => path.endsWith('.bad'))
    expect(aside).toHaveLength(1)
    expect(readFileSync(join(bench.stateDir, aside[0] ?? '')).equals(wrong)).toBe(true)
    for (const sum of [sumOf(content), sumOf(wrong)])
      await expect.poll(() => drive.log).toContain(sum)
    expect(await drive.sh('sha256sum < ours.bin')).toBe(`${sumOf(content)}  -\n`)
  })
})

describe.runIf(canMount()).each([{ mode: 'through' }, { mode: 'back' }])(
  'an upload that goes wrong in mode $mode',
  ({ mode }) => {
    let drive: MountedDrive
    let outside: string
    const content = randomBytes(5_000_000)
    const through = mode === 'through'
    beforeEach(async () => {
      await begin()
      outside = join(bench.dir, 'new.bin')
      writeFileSync(outside, content)
      const args = through ? [] : ['--write-back']
      drive = await bench.mount(
        '--timeout',
        '1s',
        '--listing-ttl',
        '200ms',
        '--listing-lag',
        '3s',
        ...args,
      )
    })

    /** In mode through the program is told; in mode back it is not. */
    const copy = async (how: RegExp): Promise<void> => {
      if (through) expect((await drive.fails(`cp ${outside} new.bin`)).stderr).toMatch(how)
      else await drive.sh(`cp ${outside} new.bin`)
    }

    /** What was closed is here, whatever the service says, and reaches it once it can. */
    const expectArrival = async (heal: () => unknown): Promise<void> => {
      expect(await drive.sh('sha256sum < new.bin')).toBe(`${sumOf(content)}  -\n`)
      await heal()
      await expect.poll(() => bench.service.list()).toHaveLength(1)
      expect(sumOf(await bench.service.contentOf('new.bin'))).toBe(sumOf(content))
      await expect
        .poll(() => drive.sh('getfattr --only-values -n user.bagfs.state new.bin'))
        .toBe('stored')
    }

    it('keeps the content when the service is pulled during cp, and sends it when it is back', async () => {
      const { proxy } = bench.service
      proxy.add({ match: UPLOAD, fault: { latencyMs: 60_000 } })
      const copying = copy(/Input\/output error/)
      await expect.poll(() => proxy.requests.some(({ path }) => UPLOAD.path.test(path))).toBe(true)
      await proxy.down()
      await copying
      await expectArrival(async () => {
        proxy.clear()
        await proxy.up()
      })
    })

    it('keeps the content when the service is away before cp, and sends it when it is back', async () => {
      await bench.service.proxy.down()
      await copy(/Input\/output error/)
      await expectArrival(() => bench.service.proxy.up())
    })

    it('keeps the content when the token is refused in the middle, and tells it', async () => {
      const { proxy } = bench.service
      await bench.service.upload('old.txt', 'old\n')
      await expect.poll(() => drive.sh('ls')).toBe('old.txt\n')
      const detail = [{ loc: ['header'], msg: 'The token has expired.', type: 'validation_error' }]
      const headers = { 'content-type': 'application/json' }
      const body = JSON.stringify({ detail })
      proxy.add({ fault: { answer: { status: 401, headers, body } } })
      await copy(/Permission denied/)
      await expect
        .poll(() => drive.sh('getfattr --only-values -n user.bagfs.state new.bin'))
        .toMatch(/^failed: .*The token has expired.* \(will be tried again\)$/)
      expect((await drive.fails('cat old.txt')).stderr).toContain('Permission denied')
      expect(await drive.sh('ls')).toBe('new.bin\nold.txt\n')
      proxy.clear()
      await expect.poll(() => drive.sh('cat old.txt')).toBe('old\n')
      await bench.service.delete((await bench.service.list())[0]?.bag_id ?? '')
      await expectArrival(() => undefined)
    })

    it('is repeated while the service answers 503', async () => {
      bench.service.proxy.add({ match: UPLOAD, times: 3, fault: { answer: { status: 503 } } })
      await drive.sh(`cp ${outside} new.bin`)
      await expectArrival(() => undefined)
    })

    it('happens once when its answer was lost', async () => {
      bench.service.proxy.add({ match: UPLOAD, times: 1, fault: { loseAnswer: true } })
      await copy(/Input\/output error/)
      await expectArrival(() => undefined)
      expect(bench.service.uploads()).toHaveLength(1)
    })

    it('that the service will never take waits for the person, and a delete ends it', async () => {
      const body = JSON.stringify({
        detail: [{ loc: ['body', 'file'], msg: 'No such names here.', type: 'validation_error' }],
      })
      const headers = { 'content-type': 'application/json' }
      bench.service.proxy.add({ match: UPLOAD, fault: { answer: { status: 422, headers, body } } })
      await copy(/Input\/output error/)
      await expect
        .poll(() => drive.sh('getfattr --only-values -n user.bagfs.state new.bin'))
        .toMatch(/^failed: .*No such names here.* \(waits for you\)$/)
      expect(await drive.sh('sha256sum < new.bin')).toBe(`${sumOf(content)}  -\n`)
      await drive.sh('rm new.bin')
      expect(await drive.sh('ls')).toBe('')
      await expect
        .poll(async () => [await drive.sh('ls'), outboxEntries(bench.stateDir)])
        .toEqual(['', []])
    })
  },
)

describe.runIf(canMount())('an account that is full', () => {
  it('refuses what cannot fit while it is written, and the old content stays', async () => {
    await begin({ capacityBytes: MEBIBYTE })
    await bench.service.upload('old.bin', 'old content\n')
    const drive = await bench.mount()
    const big = join(bench.dir, 'big.bin')
    writeFileSync(big, randomBytes(3 * MEBIBYTE))
    expect((await drive.fails(`cp ${big} old.bin`)).stderr).toContain('No space left on device')
    expect(await drive.sh('cat old.bin')).toBe('old content\n')
    expect((await drive.fails(`cp ${big} new.bin`)).stderr).toContain('No space left on device')
    expect(await drive.sh('ls')).toBe('old.bin\n')
    await drive.sh('echo fits > fits.txt')
    expect(await bench.service.contents()).toEqual({
      'old.bin': 'old content\n',
      'fits.txt': 'fits\n',
    })
    expect(outboxEntries(bench.stateDir).length).toBeLessThanOrEqual(1)
  })

  it('lets a program that was refused write less instead', async () => {
    await begin({ capacityBytes: MEBIBYTE })
    const drive = await bench.mount()
    const said = await drive.sh(`python3 - <<'END'
import os
f = os.open('log.bin', os.O_WRONLY | os.O_CREAT)
os.write(f, b'kept')
try:
    written = 4
    while written < 2000000:
        written += os.pwrite(f, b'x' * 100000, written)
    print('written')
except OSError as error:
    print(error.strerror)
os.ftruncate(f, 4)
os.close(f)
END`)
    expect(said).toBe('No space left on device\n')
    expect(await bench.service.contents()).toEqual({ 'log.bin': 'kept' })
  })

  it('does not keep the name of what it refused from the next try', async () => {
    await begin({ capacityBytes: 1_000_000 })
    const drive = await bench.mount()
    const tries = `! printf '%2000000s' > new.bin; echo less > new.bin; cat new.bin`
    // The kernel asks to open what was refused only while it trusts the name: for a second, which a busy machine misses.
    const opened = async (): Promise<string> => {
      await drive.sh(`${tries}; rm new.bin`)
      return drive.log
    }
    await expect.poll(opened).toContain('operation=open')
    await drive.sh(tries)
    expect(await bench.service.contents()).toEqual({ 'new.bin': 'less\n' })
    expect(drive.log).not.toMatch(/ warn .*operation=open/)
  })
})

describe.runIf(canMountSmallDisk())('a full local disk', () => {
  it('under the cache lets larger content be read all the same', async () => {
    await begin({ stateBytes: 40 * MEBIBYTE })
    const content = randomBytes(60 * MEBIBYTE)
    await bench.service.upload('large.bin', content)
    await bench.service.upload('small.txt', 'small\n')
    const drive = await bench.mount()
    expect(await drive.sh('sha256sum < large.bin; cat small.txt')).toBe(
      `${sumOf(content)}  -\nsmall\n`,
    )
  })

  it.each(['through', 'back'])(
    'under the outbox is told to the program, loses nothing, and the drive goes on (mode %s)',
    async (mode) => {
      await begin({ stateBytes: 24 * MEBIBYTE })
      await bench.service.upload('old.txt', 'old\n')
      const drive = await bench.mount(...(mode === 'back' ? ['--write-back'] : []))
      const big = join(bench.dir, 'big.bin')
      writeFileSync(big, randomBytes(40 * MEBIBYTE))
      expect((await drive.fails(`cp ${big} old.txt`)).stderr).toContain('No space left on device')
      expect(await drive.sh('cat old.txt')).toBe('old\n')
      await drive.sh('echo fits > new.txt')
      expect(await drive.sh('cat new.txt')).toBe('fits\n')
      await drive.leave()
      expect(await bench.service.contents()).toEqual({ 'old.txt': 'old\n', 'new.txt': 'fits\n' })
    },
  )
})
