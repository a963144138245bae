import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { FaultRule } from '../support/fault-proxy.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

const UPLOAD = { method: 'POST', path: /upload/ }
const DOWNLOAD = { path: /download/ }

interface Weather {
  readonly title: string
  readonly rules: readonly FaultRule[]
  readonly lagMs?: number
  /** True when no program notices; else a close may fail in mode through, and a read of what is not cached. */
  readonly isHidden: boolean
}

const busy = (status: number, headers = {}): FaultRule['fault'] => ({ answer: { status, headers } })

/** What a service and a network may do; what is drawn follows a seed. */
const WEATHERS: readonly Weather[] = [
  {
    title: '503 once in 10',
    rules: [{ probability: 0.1, seed: 7, fault: busy(503) }],
    isHidden: true,
  },
  {
    title: '429 with Retry-After once in 10',
    rules: [{ probability: 0.1, seed: 8, fault: busy(429, { 'retry-after': '1' }) }],
    isHidden: true,
  },
  {
    title: 'uploads reset in the middle',
    rules: [{ match: UPLOAD, probability: 0.3, seed: 9, fault: { cutRequestAfter: 100 } }],
    isHidden: false,
  },
  {
    title: 'answers to uploads lost',
    rules: [{ match: UPLOAD, probability: 0.3, seed: 10, fault: { loseAnswer: true } }],
    isHidden: false,
  },
  {
    title: 'downloads cut and stalled',
    rules: [
      { match: DOWNLOAD, probability: 0.5, seed: 11, fault: { cutResponseAfter: 5 } },
      { match: DOWNLOAD, probability: 0.5, seed: 12, fault: { stallResponseAfter: 7 } },
    ],
    isHidden: true,
  },
  {
    title: 'a wrong Content-Length at every second download',
    // The first, third and fifth: a reader may be told of a service that lies twice in a row.
    rules: [0, 1, 2].map((skip) => ({
      match: DOWNLOAD,
      skip,
      times: 1,
      fault: { wrongLength: 10 },
    })),
    isHidden: true,
  },
  {
    title: 'web pages in place of JSON once in 10',
    rules: [
      { match: { path: /files_list|upload/ }, probability: 0.1, seed: 14, fault: { html: true } },
    ],
    isHidden: false,
  },
  {
    title: 'silence once in 15',
    rules: [{ probability: 1 / 15, seed: 15, fault: { silence: true } }],
    isHidden: false,
  },
  { title: 'a listing that lags behind', rules: [], lagMs: 2_000, isHidden: true },
]

/** Content of the account before, by another client. */
const GIVEN: Readonly<Record<string, string>> = {
  'log.txt': 'one\n',
  'edited.txt': 'alpha\n',
  'vim.txt': 'first line\n',
  'synced.txt': 'old\n',
}

/** What programs do; each prints what came of it. */
const PROGRAMS: readonly { readonly command: string; readonly prints: string }[] = [
  { command: 'echo new > shell.txt; cat shell.txt', prints: 'new\n' },
  { command: 'echo two >> log.txt; cat log.txt', prints: 'one\ntwo\n' },
  { command: 'sed -i s/alpha/beta/ edited.txt; cat edited.txt', prints: 'beta\n' },
  {
    command: `vim -N -u NONE -i NONE -es -c '%s/first/second/' -c wq vim.txt; cat vim.txt`,
    prints: 'second line\n',
  },
  { command: 'cp -a ../outside/copied.txt .; cat copied.txt', prints: 'copied\n' },
  { command: 'rsync -a ../outside/synced.txt .; cat synced.txt', prints: 'new and longer\n' },
  {
    command: `python3 -c "
import zipfile
for n in 'ab':
    with zipfile.ZipFile('all.zip', 'a') as z: z.writestr(n, n * 1000)
with zipfile.ZipFile('all.zip') as z: print(z.testzip(), z.namelist())"`,
    prints: "None ['a', 'b']\n",
  },
  {
    command: `sqlite3 base.db 'create table t (n); insert into t values (1); insert into t values (2);'; sqlite3 base.db 'pragma integrity_check; select sum(n) from t;'`,
    prints: 'ok\n3\n',
  },
]
const NAMES = [...Object.keys(GIVEN), 'shell.txt', 'copied.txt', 'all.zip', 'base.db'].sort()

let bench: Bench
afterEach(async () => {
  await bench.close()
})

async function mountIn(weather: Weather, mode: 'through' | 'back'): Promise<MountedDrive> {
  bench = await Bench.start()
  for (const [name, content] of Object.entries(GIVEN)) await bench.service.upload(name, content)
  const outside = join(bench.dir, 'outside')
  mkdirSync(outside)
  writeFileSync(join(outside, 'copied.txt'), 'copied\n')
  writeFileSync(join(outside, 'synced.txt'), 'new and longer\n')
  const drive = await bench.mount(
    ...['--timeout', '300ms', '--listing-ttl', '300ms', '--listing-lag', '3s'],
    ...(mode === 'back' ? ['--write-back'] : []),
  )
  if (!weather.isHidden) await drive.sh('cat * > /dev/null')
  const { proxy } = bench.service
  if (weather.lagMs !== undefined) proxy.lagListing(weather.lagMs)
  for (const rule of weather.rules) proxy.add(rule)
  return drive
}

const CASES = WEATHERS.flatMap((weather) => [
  ...(weather.isHidden
    ? [{ weather, mode: 'through' as const, title: `${weather.title}, mode through` }]
    : []),
  { weather, mode: 'back' as const, title: `${weather.title}, mode back` },
])

describe.runIf(canMount())('ordinary programs', () => {
  it.each(CASES)('do their work with $title', async ({ weather, mode }) => {
    const drive = await mountIn(weather, mode)
    for (const { command, prints } of PROGRAMS) expect(await drive.sh(command)).toBe(prints)
    const outbox = async (): Promise<unknown> =>
      (JSON.parse(await drive.sh('cat .bagfs/status.json')) as { outbox: unknown }).outbox
    await expect.poll(outbox).toEqual([])
    if (weather.lagMs === undefined) {
      expect(bench.service.proxy.requests.filter(({ fault }) => fault !== undefined)).not.toEqual(
        [],
      )
    }
    const names = (await bench.service.list()).map(({ filename }) => filename)
    expect([...names].sort()).toEqual(NAMES)
    for (const name of NAMES) {
      const sum = createHash('sha256')
        .update(await bench.service.contentOf(name))
        .digest('hex')
      expect(await drive.sh(`sha256sum < ${name}`)).toBe(`${sum}  -\n`)
    }
  })
})
