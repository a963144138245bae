import { describe, expect, it } from 'vitest'
import { describeItem, describeStatus } from '../../../src/mount/status-words.ts'
import { transfersOf, TransferSpeeds } from '../../../src/control/transfer-speeds.ts'
import type { DriveStatus, WireItem } from '../../../src/control/protocol.ts'

const NOW = 1_000_000_000

const item = (some: Partial<WireItem>): WireItem => ({
  id: '1',
  name: 'a.txt',
  kind: 'put',
  phase: 'waiting',
  bytes: 12_345,
  state: 'waiting',
  ...some,
})
const failure = { code: 'rejected', message: 'No.', atMs: 0, tries: 3, waitsForUser: false }

function statusWith(some: Partial<DriveStatus>): DriveStatus {
  return {
    version: 1,
    mountpoint: '/drive',
    pid: 1,
    service: 'http://service',
    account: 'me',
    mode: 'back',
    listing: { ageMs: 61_000, records: 2 },
    cache: { bytes: 1_500_000, maxBytes: 10e9, bags: 1 },
    uploads: [],
    downloads: [],
    outbox: [],
    room: [],
    damaged: [],
    ...some,
  }
}

describe('the status in words', () => {
  it('says everything about a drive at rest in a few lines', () => {
    expect(describeStatus(statusWith({}), NOW)).toBe(
      [
        'Drive:    /drive (closing a file waits for the local disk; uploads follow)',
        'Service:  http://service, account me',
        'Listing:  2 bags, 61 s old',
        'Cache:    1.5 MB of 10 GB, 1 bag',
        'Outbox:   empty: everything is stored.',
        '',
      ].join('\n'),
    )
  })

  it('counts what waits, what failed and what waits for the person; junk is not owed', () => {
    const text = describeStatus(
      statusWith({
        outbox: [
          item({}),
          item({ failure }),
          item({ failure: { ...failure, waitsForUser: true } }),
          item({ phase: 'local', name: '.DS_Store', state: 'local only' }),
        ],
      }),
      NOW,
    )
    expect(text).toContain(
      'Outbox:   3 changes wait (37 kB), 1 failed and will be tried again, 1 failed and waits for you (bagfs outbox).\n',
    )
    expect(text).toContain('  .DS_Store  12 kB  local only\n')
  })

  it('does not call the outbox empty above what stays on this machine', () => {
    const outbox = [item({ phase: 'local', name: '.DS_Store', state: 'local only' })]
    expect(describeStatus(statusWith({ outbox }), NOW)).toContain(
      'Outbox:   nothing waits; what is listed stays on this machine.\n  .DS_Store  12 kB  local only\n',
    )
  })

  it('says how old the listing is and why there is no newer one', () => {
    const lastError = { code: 'unavailable', message: 'No route.', atMs: NOW - 30_000 }
    const text = describeStatus(
      statusWith({ listing: { ageMs: 7_200_000, records: 1, lastError } }),
      NOW,
    )
    expect(text).toContain('1 bag, 2 h old; not to be had for now: No route (30 s ago)')
    const none = describeStatus(statusWith({ listing: { ageMs: null, records: 0 } }), NOW)
    expect(none).toContain('Listing:  none yet\n')
  })

  it('names downloads by their bag when nothing is listed for it', () => {
    const downloads = [
      { bagId: 'b1', receivedBytes: 10 },
      { bagId: 'b2', name: 'movie.mkv', receivedBytes: 2e6, totalBytes: 1e9 },
    ]
    const text = describeStatus(statusWith({ downloads }), NOW)
    expect(text).toContain('Download: b1, 10 B\nDownload: movie.mkv, 2.0 MB of 1.0 GB\n')
  })

  it('shows the account as a bar, in which a little shows and what is left, too', () => {
    const barOf = (capacity: number, free: number): string | undefined =>
      /^Account: {2}(.*)$/m.exec(
        describeStatus(statusWith({ space: { capacity, free } }), NOW),
      )?.[1]
    expect(barOf(1e9, 1e9)).toBe(`[${'-'.repeat(20)}] 0 % used: 0 B of 1.0 GB, 1.0 GB left`)
    expect(barOf(20e9, 20e9 - 13_000)).toContain(
      `[#${'-'.repeat(19)}] under 1 % used: 13 kB of 20 GB`,
    )
    expect(barOf(1e9, 5e8)).toContain(`[${'#'.repeat(10)}${'-'.repeat(10)}] 50 % used`)
    expect(barOf(1e9, 1e6)).toContain(`[${'#'.repeat(19)}-] 99 % used`)
    expect(barOf(1e9, 0)).toContain('] 100 % used')
    const shares = [1, 10_001_606, 40_001_606, 70_400_000, 70_600_000, 996_000_000]
    expect(shares.map((used) => /\] (.*) used/.exec(barOf(1e9, 1e9 - used) ?? '')?.[1])).toEqual([
      'under 1 %',
      '1 %',
      '4 %',
      '7 %',
      '7 %',
      '99 %',
    ])
    expect(barOf(1e9, -5)).toContain(`[${'#'.repeat(20)}] `)
  })

  it('tells how many reads the cache answers', () => {
    const cache = { bytes: 1_500_000, maxBytes: 10e9, bags: 1, hits: 82, misses: 17 }
    const text = describeStatus(statusWith({ cache }), NOW)
    expect(text).toContain('Cache:    1.5 MB of 10 GB, 1 bag, answers 82 % of reads\n')
  })

  it('says what is slow, when something is', () => {
    const slowLines = (pace: DriveStatus['pace']): readonly string[] =>
      describeStatus(statusWith({ pace: pace ?? {} }), NOW).match(/^Slow: +.*$/gm) ?? []
    expect(slowLines({})).toEqual([])
    expect(slowLines({ serviceMs: 999, driveMs: 99 })).toEqual([])
    expect(slowLines({ serviceMs: 3_210, driveMs: 5 })).toEqual([
      'Slow:     the service, or the way to it: 3.2 s a request of late',
    ])
    expect(slowLines({ serviceMs: 10, driveMs: 250 })).toEqual([
      'Slow:     this machine, or its disk: 0.3 s an operation of late',
    ])
  })

  it('tells how fast transfers go and how long they take, once that is known', () => {
    const speeds = new TransferSpeeds()
    const at = (bytes: number) =>
      statusWith({
        uploads: [{ id: '1', name: 'a.bin', sentBytes: bytes, totalBytes: 9e6, percent: 0 }],
        downloads: [{ bagId: 'b', receivedBytes: bytes }],
      })
    speeds.note(transfersOf(at(0)), 0)
    expect(describeStatus(at(0), NOW, speeds)).toContain('Upload:   a.bin, 0 B of 9.0 MB\n')
    speeds.note(transfersOf(at(3e6)), 1_000)
    const text = describeStatus(at(3e6), NOW, speeds)
    expect(text).toContain('Upload:   a.bin, 3.0 MB of 9.0 MB, 3.0 MB/s, 2 s left\n')
    expect(text).toContain('Download: b, 3.0 MB, 3.0 MB/s\n')
  })

  it('tells what folders were stored without', () => {
    const text = describeStatus(
      statusWith({ leftOut: [{ folder: 'f', path: 'd/x' }, { folder: 'g' }] }),
      NOW,
    )
    const why = (name: string): string =>
      `is left out: another machine removed the version of ${name} that it was in\n`
    expect(text).toContain(`Missing:  f/d/x ${why('f')}`)
    expect(text).toContain(`Missing:  what was not changed here in g ${why('g')}`)
  })

  it('says what is pinned, how much of it is here, and why the rest is not', () => {
    const pin = { name: 'a', bytes: 2e6, hereBytes: 2e6, state: 'here' } as const
    const here = describeStatus(statusWith({ pins: [pin] }), NOW)
    expect(here).toContain('Pinned:   1 name, 2.0 MB: all here, to be read offline\n')
    const away = { ...pin, hereBytes: 5e5 }
    const pins: DriveStatus['pins'] = [
      pin,
      { ...away, name: 'b', state: 'coming' },
      { ...away, name: 'c', state: 'waits', reason: 'No route.' },
      { ...away, name: 'd', state: 'no-room', lacks: 'cache-size' },
      { ...away, name: 'e', state: 'no-room', lacks: 'disk' },
      { ...away, name: 'f', state: 'missing' },
    ]
    const text = describeStatus(statusWith({ pins }), NOW)
    expect(text).toContain('1 of 6 names all here, to be read offline (4.5 MB of 12 MB)\n')
    expect(text).toContain('  b  2.0 MB  500 kB here, the rest is being fetched\n')
    expect(text).toContain('the rest is tried again: No route.\n')
    expect(text).toContain('does not fit into the cache of 10 GB; mount with a larger --cache-size')
    expect(text).toContain('no room for it above --min-free')
    expect(text).toContain('  f  2.0 MB  nothing has this name now;')
    const many = Array.from({ length: 13 }, (_, at) => ({
      ...away,
      name: `${at}`,
      state: 'coming' as const,
    }))
    const long = describeStatus(statusWith({ pins: many }), NOW)
    expect(long).toContain('  and 3 more (bagfs pin --list)\n')
  })

  it('says how often a change was tried and when it is tried next', () => {
    const failed = item({ failure, state: 'failed: No.', nextTryAtMs: NOW + 12_000 })
    expect(describeItem(failed, NOW)).toBe('a.txt  12 kB  failed: No., tried 3 times, next in 12 s')
    expect(describeItem(item({ kind: 'delete' }), NOW)).toBe('a.txt  to be deleted  waiting')
  })
})
