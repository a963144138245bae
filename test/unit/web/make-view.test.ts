import { describe, expect, it } from 'vitest'
import type { DriveStatus, WireItem } from '../../../src/control/protocol.ts'
import { transfersOf, TransferSpeeds } from '../../../src/control/transfer-speeds.ts'
import { makeView } from '../../../src/web/make-view.ts'
import { TrafficHistory } from '../../../src/web/traffic-history.ts'
import type { PageView } from '../../../src/web/view.ts'
import { EMPTY_STATUS } from '../metrics/figures.ts'

const START_MS = 1_000_000

const item = (some: Partial<WireItem>): WireItem => ({
  ...{ id: '1', name: 'a.txt', kind: 'put', phase: 'waiting', bytes: 12_345, state: 'waiting' },
  ...some,
})
const failure = { code: 'rejected', message: 'No.', atMs: 0, tries: 1, waitsForUser: true }

/** What the page shows after these statuses, one for each second; undefined is a drive that is away. */
function viewAfter(...statuses: readonly (Partial<DriveStatus> | undefined)[]): PageView {
  const [history, speeds] = [new TrafficHistory(), new TransferSpeeds()]
  let now = START_MS
  let last: DriveStatus | undefined
  for (const [second, some] of statuses.entries()) {
    now = START_MS + 1000 * second
    last = some === undefined ? undefined : { ...EMPTY_STATUS, ...some }
    history.note(last, now)
    speeds.note(last === undefined ? [] : transfersOf(last), now)
  }
  const seen = last === undefined ? { outbox: [item({})] } : { status: last, outbox: last.outbox }
  return makeView(
    { mountpoint: '/drive', mountAgain: 'bagfs mount /drive', trash: [], ...seen },
    { history, speeds },
    now,
  )
}

describe('the page says how things are', () => {
  it('at rest, with what waits, and with what failed', () => {
    expect(viewAfter({})).toMatchObject({ mood: 'good', headline: 'Everything is stored.' })
    expect(viewAfter({ outbox: [item({})] })).toMatchObject({
      ...{ mood: 'busy', headline: '1 change waits (12 kB).' },
    })
    expect(viewAfter({ outbox: [item({ failure })] })).toMatchObject({
      mood: 'bad',
      headline: '1 change waits (12 kB), 1 failed and waits for you.',
    })
  })

  it('when the drive is away, with what it left', () => {
    const view = viewAfter({}, undefined)
    expect(view).toMatchObject({ presence: 'gone', headline: 'The drive is not mounted.' })
    expect(view.advice).toContain('bagfs mount /drive (1 change waits')
    expect(view.outbox.rows).toMatchObject([{ name: 'a.txt', canDiscard: true }])
  })

  it('when the service is away', () => {
    const lastError = { code: 'unavailable', message: 'No answer.', atMs: START_MS }
    const view = viewAfter({ listing: { ageMs: 5, records: 1, lastError } })
    expect(view).toMatchObject({ mood: 'bad', presence: 'here' })
    expect(view.advice).toContain('No answer.')
  })

  it('in rows: what can be tried again, what can be given up, and the rest as a number', () => {
    const many = Array.from({ length: 103 }, (_, index) => item({ id: `m${index}` }))
    const { outbox } = viewAfter({
      outbox: [
        item({ id: 'junk', phase: 'local' }),
        item({ id: 'done', phase: 'confirmed', failure }),
        ...many,
      ],
    })
    expect(outbox.rows).toHaveLength(100)
    expect(outbox.rows[0]).toMatchObject({ id: 'done', canRetry: true, canDiscard: false })
    expect(outbox.rows[1]).toMatchObject({ id: 'm0', canRetry: false, canDiscard: true })
    expect(outbox.note).toBe('And 4 more: bagfs outbox lists them all.')
  })

  it('in a headline that agrees with the rows, also of what is being sent', () => {
    const { headline, outbox, transfers } = viewAfter({
      outbox: [item({ id: 'sent', state: 'uploading 50 %' }), item({ id: 'next' })],
      uploads: [{ id: 'sent', name: 'a.txt', sentBytes: 1, totalBytes: 2, percent: 50 }],
    })
    expect(headline).toBe('2 changes wait (25 kB).')
    expect(outbox.rows).toMatchObject([
      { id: 'sent', state: 'uploading 50 %', canDiscard: true },
      { id: 'next', state: 'waiting', canDiscard: true },
    ])
    expect(transfers).toMatchObject([{ key: 'up-sent', percent: 50 }])
  })

  it('in bars, of which that of the account warns', () => {
    const cache = { bytes: 10, maxBytes: 10, bags: 1, hits: 3, misses: 1 }
    const { meters } = viewAfter({ cache, space: { capacity: 1000, free: 50 } })
    expect(meters).toEqual([
      { label: 'Account', text: '950 B of 1.0 kB · 50 B free', share: 0.95, isFull: true },
      {
        ...{ label: 'Cache', text: '10 B of 10 B, 1 bag · answers 75 % of reads' },
        ...{ share: 1, isFull: false },
      },
    ])
    expect(viewAfter({ space: { capacity: 0, free: 0 } }).meters[0]?.share).toBe(1)
  })
})

describe('the page says how fast it goes', () => {
  const sent = (sentBytes: number, receivedBytes = 0): Partial<DriveStatus> => ({
    traffic: { sentBytes, receivedBytes },
  })
  const upload = (sentBytes: number): Partial<DriveStatus> => ({
    uploads: [{ id: '1', name: 'a', sentBytes, totalBytes: 10e6, percent: 0 }],
  })
  const textOf = (view: PageView): string | undefined => view.transfers[0]?.text

  it('of each transfer, and how long it takes', () => {
    expect(textOf(viewAfter(upload(0)))).toBe('0 B of 10 MB')
    expect(textOf(viewAfter(upload(0), upload(2e6), upload(4e6)))).toBe(
      '4.0 MB of 10 MB · 2.0 MB/s · 3 s left',
    )
    const still = Array.from({ length: 7 }, () => upload(4e6))
    expect(textOf(viewAfter(upload(0), ...still))).toBe('4.0 MB of 10 MB · stands still')
    expect(textOf(viewAfter(upload(9e6), upload(10e6)))).toBe(
      '10 MB of 10 MB · waits for the answer',
    )
    expect(textOf(viewAfter(upload(9e6), upload(1e6)))).toBe('1.0 MB of 10 MB')
  })

  it('of a download whose length is not known', () => {
    const download = (receivedBytes: number) => ({ downloads: [{ bagId: 'b', receivedBytes }] })
    const [row] = viewAfter(download(0), download(5e6)).transfers
    expect(row).toEqual({
      ...{ key: 'down-b', name: 'b', direction: 'down', text: '5.0 MB · 5.0 MB/s' },
    })
  })

  it('over the last minutes, with nothing made up between two drives', () => {
    const { speed } = viewAfter(sent(0), sent(3e6, 1e6), sent(3e6, 1e6))
    expect(speed?.points).toEqual([
      [1, 3e6, 1e6],
      [0, 0, 0],
    ])
    expect(speed).toMatchObject({ scale: 5e6, upText: '1.5 MB/s', downText: '500 kB/s' })
    expect(speed?.summary).toContain('The most in the last 5 min was 3.0 MB/s.')
    const other = viewAfter(
      sent(9e6),
      undefined,
      { pid: 2, ...sent(7e6) },
      { pid: 2, ...sent(8e6) },
    )
    expect(other.speed?.points.map(([, up]) => up)).toEqual([0, 1e6])
    const replaced = viewAfter(sent(9e6), { pid: 2, ...sent(10e6) })
    expect(replaced.speed?.points.map(([, up]) => up)).toEqual([0])
  })

  it('no longer than five minutes, and not of a drive that does not tell', () => {
    const long = Array.from({ length: 400 }, (_, second) => sent(second * 1000))
    expect(viewAfter(...long).speed?.points).toHaveLength(300)
    expect(viewAfter({}, {}).speed).toBeUndefined()
  })
})

it('lets no control character through, whatever a name holds', () => {
  const name = 'a\u202eb\u0007<img src=x onerror=alert(1)>'
  const view = viewAfter({
    outbox: [item({ name, state: `failed: ${name}` })],
    downloads: [{ bagId: 'b', name, receivedBytes: 1 }],
    conflicts: [{ name, other: name, atMs: 0 }],
    service: `http://${name}`,
  })
  const shown = 'a\\u{202e}b\\x07<img src=x onerror=alert(1)>'
  expect(view.outbox.rows[0]).toMatchObject({ name: shown, state: `failed: ${shown}` })
  expect(view.transfers[0]?.name).toBe(shown)
  expect(view.notices[0]).toContain(shown)
  expect(JSON.stringify(view)).not.toMatch(/[\u202e\u0007]/)
})
