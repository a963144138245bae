import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { findMount, listMounts } from '../../src/disk/find-mount.ts'
import { deferred } from '../../src/domain/deferred.ts'
import type { FileRecordWire } from '../../src/service/wire.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type Outcome } from '../support/mounted-drive.ts'

const MEBIBYTE = 2 ** 20

/** A port of this machine that no program listens on. */
async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

/** One sentence and at most one hint: no stack, no log, no second sentence about the same. */
function expectPlain(outcome: Outcome, sentence: RegExp): void {
  const [first = '', ...more] = outcome.stderr.split('\n')
  expect(first).toMatch(sentence)
  expect(first).toMatch(/^bagfs: .*\.$/)
  expect(more.length).toBeLessThanOrEqual(1)
  expect(outcome.stderr).not.toMatch(/\bat .*\.js:\d+/)
  expect(outcome.stdout).toBe('')
}

describe.runIf(canMount())('a mountpoint that will not do', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })

  const mountOn = (path: string): Promise<Outcome> =>
    bench.bagfs(['mount', path, '--url', bench.service.proxy.url, '--state-dir', bench.stateDir], {
      env: { BAGFS_TOKEN: bench.service.token },
    })

  it('is refused when it is missing', async () => {
    const outcome = await mountOn(join(bench.dir, 'nowhere'))
    expect(outcome.code).toBe(2)
    expectPlain(outcome, /nowhere does not exist/)
    expect(outcome.stderr).toContain('mkdir -p')
  })

  it('is refused when it is not empty, and what is in it stays', async () => {
    const path = join(bench.dir, 'full')
    mkdirSync(path)
    writeFileSync(join(path, 'mine.txt'), 'mine')
    const outcome = await mountOn(path)
    expect(outcome.code).toBe(2)
    expectPlain(outcome, /full is not empty/)
    expect(readFileSync(join(path, 'mine.txt'), 'utf8')).toBe('mine')
  })

  it('is refused when it is a file', async () => {
    const path = join(bench.dir, 'file')
    writeFileSync(path, '')
    const outcome = await mountOn(path)
    expect(outcome.code).toBe(2)
    expectPlain(outcome, /file is not a directory/)
  })

  it('is refused when a drive is on it already, and that drive goes on', async () => {
    await bench.service.upload('a.txt', 'a\n')
    const drive = await bench.mount()
    const outcome = await mountOn(bench.mountpoint)
    expect(outcome.code).toBe(7)
    expectPlain(outcome, /has a file system on it already/)
    expect(outcome.stderr).toContain('bagfs umount')
    expect(await drive.sh('cat a.txt')).toBe('a\n')
  })

  it('is given to one of two drives that are mounted on it at the same moment', async () => {
    const both = deferred()
    let asked = 0
    const before = (): Promise<void> => {
      asked += 1
      if (asked === 2) both.resolve()
      return both.promise
    }
    bench.service.proxy.add({ match: { path: /\/api\/user$/ }, times: 2, fault: { before } })
    const outcomes = await Promise.all([
      bench.mountBy(),
      bench.mountBy('--state-dir', join(bench.dir, 'other')),
    ])
    expect(outcomes.map(({ code }) => code).sort()).toEqual([0, 7])
    const refused = outcomes.find(({ code }) => code === 7)
    expect(refused?.stderr).toMatch(/is being mounted on .*\.|has a file system on it already/)
    const mounts = await listMounts()
    expect(mounts.filter(({ mountpoint }) => mountpoint === bench.mountpoint)).toHaveLength(1)
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
    expect(await findMount(bench.mountpoint)).toBeUndefined()
  })

  it('is taken up again when the dead mount of a killed drive is on it', async () => {
    const drive = await bench.mount()
    await drive.sh('echo stored > a.txt')
    drive.signal('SIGKILL')
    await drive.ended()
    expect(drive.isMounted).toBe(true)
    expect((await bench.mountBy()).code).toBe(0)
    expect(readFileSync(join(bench.mountpoint, 'a.txt'), 'utf8')).toBe('stored\n')
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
  })
})

describe.runIf(canMount())('a service that will not do', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })

  const mountWith = (url: string, token: string, ...args: readonly string[]): Promise<Outcome> =>
    bench.bagfs(['mount', bench.mountpoint, '--url', url, '--state-dir', bench.stateDir, ...args], {
      env: { BAGFS_TOKEN: token },
    })

  it.each(['--foreground', '--background'])(
    'refuses a wrong token with one plain line that does not tell it (%s)',
    async (how) => {
      const token = 'wrong-token-that-nobody-may-see'
      const outcome = await mountWith(bench.service.proxy.url, token, how)
      expect(outcome.code).toBe(3)
      expectPlain(outcome, /token/i)
      expect(outcome.stderr).not.toContain(token)
    },
  )

  it('is told apart when nobody answers at the URL', async () => {
    const outcome = await mountWith(`http://127.0.0.1:${await freePort()}`, 'token')
    expect(outcome.code).toBe(5)
    expectPlain(outcome, /127\.0\.0\.1/)
  })

  it('is told apart when its name leads nowhere', async () => {
    const outcome = await mountWith('https://no-such-host.invalid', 'token')
    expect(outcome.code).toBe(5)
    expectPlain(outcome, /no-such-host\.invalid/)
  })

  it('is told apart when a web page answers', async () => {
    bench.service.proxy.add({ fault: { html: true } })
    const outcome = await mountWith(bench.service.proxy.url, 'token')
    expect(outcome.code).toBe(1)
    expectPlain(outcome, /./)
    expect(outcome.stderr).toMatch(/URL/)
  })

  it('is told apart when the listing is a web page', async () => {
    bench.service.proxy.add({ match: { path: /files_list/ }, fault: { html: true } })
    const outcome = await mountWith(bench.service.proxy.url, bench.service.token)
    expect(outcome.code).toBe(1)
    expectPlain(outcome, /./)
  })

  it('keeps the drive as it was when a later listing is none', async () => {
    await bench.service.upload('a.txt', 'a\n')
    const drive = await bench.mount('--listing-ttl', '50ms')
    for (const body of ['{}', 'null', '[', '"list"', '']) {
      const remove = bench.service.proxy.add({
        match: { path: /files_list/ },
        fault: { answer: { status: 200, headers: { 'content-type': 'application/json' }, body } },
      })
      expect(await drive.sh('ls; cat a.txt')).toBe('a.txt\na\n')
      remove()
    }
    await bench.service.upload('b.txt', 'b\n')
    await expect.poll(() => drive.sh('ls')).toBe('a.txt\nb.txt\n')
  })
})

describe.runIf(canMount())('a listing that will not do', () => {
  let bench: Bench | undefined
  afterEach(async () => {
    await bench?.close()
  })

  it('of 100,000 records is shown whole, in modest memory', async () => {
    const extraRecords = Array.from({ length: 100_000 }, (_, index) => ({
      filename: `report ${index % 90_000}.pdf`,
      size: index,
      uploaded_at: 1_700_000_000 + index,
      description: 'one of many',
      bag_id: index.toString(16).padStart(8, '0').padEnd(64, '0'),
    }))
    bench = await Bench.start({ extraRecords: () => extraRecords })
    await bench.service.upload('mine.txt', 'mine\n')
    const drive = await bench.mount('--listing-ttl', '1h')
    expect(await drive.sh('ls -f | grep -c report')).toBe('100000\n')
    expect(await drive.sh('stat -c %s "report 77.pdf" "report 77 (0000004d).pdf"')).toBe(
      '90077\n77\n',
    )
    expect(await drive.sh('cat mine.txt')).toBe('mine\n')
    expect(drive.residentBytes()).toBeLessThan(300 * MEBIBYTE)
  })

  it('with records that cannot be used shows all others', async () => {
    const broken = [null, 5, 'x', [], {}, { filename: 'no id' }, { filename: {}, bag_id: 'b' }]
    bench = await Bench.start({ extraRecords: () => broken as unknown as FileRecordWire[] })
    await bench.service.upload('good.txt', 'good\n')
    const drive = await bench.mount()
    expect(await drive.sh('ls; cat good.txt')).toBe('good.txt\ngood\n')
    await expect.poll(() => drive.log).toContain('no id')
  })

  it('with sizes and times that cannot be true reads the true content', async () => {
    const bags = new Map<string, string>()
    const odd: readonly unknown[] = [
      -1,
      2 ** 53,
      1e300,
      '12',
      'many',
      null,
      3.7,
      undefined,
      true,
      1e15,
    ]
    bench = await Bench.start({
      extraRecords: () =>
        [...bags].map(([filename, bag_id], index) => ({
          filename: `odd ${filename}`,
          bag_id,
          size: odd[index],
          uploaded_at: odd[index],
          description: odd[index],
        })) as unknown as FileRecordWire[],
    })
    for (const index of odd.keys()) {
      bags.set(`${index}`, await bench.service.upload(`${index}`, `content of ${index}\n`))
    }
    const drive = await bench.mount()
    for (const index of odd.keys()) {
      expect(await drive.sh(`cat "odd ${index}"`)).toBe(`content of ${index}\n`)
      expect(await drive.sh(`stat -c %s "odd ${index}"`)).toBe('13\n')
    }
    expect(await drive.sh('ls -l | grep -c "odd"')).toBe(`${odd.length}\n`)
  })
})
