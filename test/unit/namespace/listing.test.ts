import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { silentLogger, type Logger } from '../../../src/domain/logger.ts'
import type { BagId } from '../../../src/domain/ids.ts'
import type { BagRecord } from '../../../src/domain/record.ts'
import { Listing, type ListingSnapshot } from '../../../src/namespace/listing.ts'
import { buildTree } from '../../../src/namespace/tree.ts'
import { ListingStore } from '../../../src/state/listing-store.ts'
import { bag, record } from './builders.ts'
import { ManualClock } from './manual-clock.ts'

/** The service's end of a request, for the test to answer. */
interface Asked {
  readonly signal: AbortSignal | undefined
  answer(...records: readonly BagRecord[]): Promise<void>
  fail(error: DriveError): Promise<void>
}

const TTL = 5_000
const WAIT = 1_000
const a = record(bag(1), 'a')
const b = record(bag(2), 'b')
const down = (): DriveError => new DriveError('unavailable', 'No route.')

/** Lets everything that is ready to run do so; nothing here waits for real time. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
/** What a promise has come to by now. */
async function stateOf(promise: Promise<unknown>): Promise<unknown> {
  await settle()
  return Promise.race([
    promise.then(
      (value) => value,
      (error: unknown) => error,
    ),
    settle().then(() => 'waiting'),
  ])
}

let dir: string
let clock: ManualClock
let asked: Asked[]
let mostAtOnce: number
let open: Listing[]
let warnings: string[]

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'bagfs-listing-'))
  clock = new ManualClock()
  asked = []
  mostAtOnce = 0
  open = []
  warnings = []
})
afterEach(async () => {
  await Promise.all(open.map((listing) => listing.close()))
  await rm(dir, { recursive: true })
})

async function openListing(kindOf?: (id: BagId) => 'folder' | undefined): Promise<Listing> {
  let inFlight = 0
  const listFiles = (options?: { signal?: AbortSignal }): Promise<readonly BagRecord[]> => {
    inFlight += 1
    mostAtOnce = Math.max(mostAtOnce, inFlight)
    return new Promise((resolve, reject) => {
      const end = (act: () => void): Promise<void> => {
        inFlight -= 1
        act()
        return settle()
      }
      options?.signal?.addEventListener('abort', () => {
        reject(new DriveError('interrupted', 'Aborted.'))
      })
      asked.push({
        signal: options?.signal,
        answer: (...records) =>
          end(() => {
            resolve(records)
          }),
        fail: (error) =>
          end(() => {
            reject(error)
          }),
      })
    })
  }
  const log: Logger = {
    ...silentLogger,
    warn: (_, message) => warnings.push(message),
    error: (_, message) => warnings.push(message),
  }
  const listing = await Listing.open(
    {
      service: { listFiles },
      clock,
      log,
      store: new ListingStore(dir),
      ...(kindOf ? { kindOf } : {}),
    },
    { ttlMs: TTL, waitMs: WAIT },
  )
  open.push(listing)
  return listing
}

function namesIn(listing: Listing): readonly string[] {
  return Array.from(buildTree(listing.current()?.index, []).entries(), ({ shown }) => shown)
}

/** A listing that has had one answer. */
async function openAnswered(...records: readonly BagRecord[]): Promise<Listing> {
  const listing = await openListing()
  const first = listing.fresh()
  await request(0).answer(...records)
  await first
  return listing
}

/** The first answer is kept, and the second one is not yet. */
async function openChanged(): Promise<Listing> {
  const listing = await openAnswered(a)
  expect(await listing.keep()).toBe(true)
  const changed = listing.refreshNow()
  await settle()
  await request(1).answer(b)
  await changed
  return listing
}

function request(place: number): Asked {
  const found = asked[place]
  if (found === undefined) throw new Error(`There was no request ${place}.`)
  return found
}

describe('fresh', () => {
  test('waits for the first answer however long it takes, and many callers share one request', async () => {
    const listing = await openListing()
    const callers = [listing.fresh(), listing.fresh(), listing.fresh()]
    clock.move(60_000)
    expect(await stateOf(Promise.race(callers))).toBe('waiting')
    await request(0).answer(a)
    for (const caller of callers) expect((await caller).records).toEqual([a])
    expect(asked).toHaveLength(1)
    expect(listing.current()?.receivedAtMs).toBe(clock.now())
    expect(listing.current()?.startedAtMs).toBe(clock.now() - 60_000)
  })

  test('rejects with the error of the first request when there is nothing to go on with', async () => {
    const listing = await openListing()
    const first = listing.fresh()
    const error = new DriveError('unauthorized', 'Wrong token.')
    await Promise.all([
      expect(first).rejects.toBe(error),
      settle().then(() => request(0).fail(error)),
    ])
    await expect(listing.fresh()).rejects.toBe(error)
    expect(asked).toHaveLength(1)
  })

  test('asks nothing while the answer is young', async () => {
    const listing = await openAnswered(a)
    clock.move(TTL / 2)
    await listing.fresh()
    expect(asked).toHaveLength(1)
  })

  test('answers at once past half the time to live and asks in the background', async () => {
    const listing = await openAnswered(a)
    clock.move(TTL / 2 + 1)
    expect((await listing.fresh()).records).toEqual([a])
    expect(asked).toHaveLength(2)
    await request(1).answer(a, b)
    expect((await listing.fresh()).records).toEqual([a, b])
    expect(asked).toHaveLength(2)
  })

  test('waits for a new answer past the time to live', async () => {
    const listing = await openAnswered(a)
    clock.move(TTL + 1)
    const late = listing.fresh()
    expect(await stateOf(late)).toBe('waiting')
    await request(1).answer(b)
    expect((await late).records).toEqual([b])
    expect(clock.waiting).toBe(1) // the save of the listing; the wait is over
  })

  test('goes on with the old answer when the new one takes long, and makes nobody wait for it again', async () => {
    const listing = await openAnswered(a)
    clock.move(TTL + 1)
    const first = listing.fresh()
    await settle()
    clock.move(WAIT / 2)
    const second = listing.fresh()
    expect(await stateOf(second)).toBe('waiting')
    clock.move(WAIT / 2)
    expect((await first).records).toEqual([a])
    expect((await second).records).toEqual([a])
    expect((await listing.fresh()).records).toEqual([a])
    expect(asked).toHaveLength(2)
  })

  test('goes on with the old answer when the request fails, and asks again after 1 s, 2 s ... 30 s', async () => {
    const listing = await openAnswered(a)
    clock.move(TTL + 1)
    const waits: number[] = []
    for (let times = 1; times <= 7; times += 1) {
      const late = listing.fresh()
      await settle()
      await request(times).fail(down())
      expect((await late).records).toEqual([a])
      let waited = 0
      while (asked.length === times + 1 && waited < 100_000) {
        clock.move(500)
        waited += 500
        // Once it asks again the caller waits: the test goes on, the next round answers it.
        await stateOf(listing.fresh())
      }
      waits.push(waited)
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000])
    expect(listing.status()).toMatchObject({ records: 1, lastError: { code: 'unavailable' } })
    await request(8).answer(a)
    expect(listing.status()).toEqual({ records: 1, ageMs: 0 })
  })

  test('leaves the service alone for as long as it asked', async () => {
    const listing = await openAnswered(a)
    clock.move(TTL + 1)
    const late = listing.fresh()
    await settle()
    await request(1).fail(new DriveError('rate-limited', 'Slow down.', { retryAfterMs: 90_000 }))
    await late
    clock.move(89_000)
    await listing.fresh()
    expect(asked).toHaveLength(2)
  })

  test('takes an answer for old when the clock was set back', async () => {
    const listing = await openAnswered(a)
    clock.move(-3_600_000)
    const late = listing.fresh()
    expect(await stateOf(late)).toBe('waiting')
    await request(1).answer(b)
    expect((await late).records).toEqual([b])
  })

  test('an aborted caller stops waiting and the others do not', async () => {
    const listing = await openListing()
    const leaving = new AbortController()
    const [one, other] = [listing.fresh(leaving.signal), listing.fresh()]
    leaving.abort()
    await expect(one).rejects.toMatchObject({ code: 'interrupted' })
    await request(0).answer(a)
    expect((await other).records).toEqual([a])
  })
})

describe('refreshNow', () => {
  test('asks also when the answer is young', async () => {
    const listing = await openAnswered(a)
    const now = listing.refreshNow()
    await settle()
    await request(1).answer(b)
    expect((await now).records).toEqual([b])
  })

  test('does not take the answer of a request that began before, and shares the one that follows', async () => {
    const listing = await openListing()
    const before = listing.fresh()
    clock.move(10)
    const calledAt = clock.now()
    const callers = [listing.refreshNow(), listing.refreshNow()]
    await request(0).answer(a)
    expect((await before).records).toEqual([a])
    expect(await stateOf(Promise.race(callers))).toBe('waiting')
    await request(1).answer(b)
    for (const caller of callers) {
      expect((await caller).startedAtMs).toBeGreaterThanOrEqual(calledAt)
      expect((await caller).records).toEqual([b])
    }
    expect(asked).toHaveLength(2)
    expect(mostAtOnce).toBe(1)
  })

  test('rejects with the error of its request although there is an old answer', async () => {
    const listing = await openAnswered(a)
    const now = listing.refreshNow()
    await Promise.all([
      expect(now).rejects.toMatchObject({ code: 'unavailable' }),
      settle().then(() => request(1).fail(down())),
    ])
    expect(listing.current()?.records).toEqual([a])
  })
})

describe('changes', () => {
  test('are told once, and the same records keep the index in whatever order they come', async () => {
    const listing = await openAnswered(a, b)
    const told: ListingSnapshot[] = []
    const stop = listing.onChange((snapshot) => told.push(snapshot))
    const index = listing.current()?.index
    for (const records of [
      [a, b],
      [b, { ...a }],
    ]) {
      const now = listing.refreshNow()
      await settle()
      await request(asked.length - 1).answer(...records)
      expect((await now).index).toBe(index)
    }
    expect(told).toHaveLength(0)
    for (const records of [[a, a], [a], [{ ...a, description: 'new' }]]) {
      const now = listing.refreshNow()
      await settle()
      await request(asked.length - 1).answer(...records)
      expect(told.at(-1)).toBe(await now)
    }
    expect(told).toHaveLength(3)
    stop()
    const now = listing.refreshNow()
    await settle()
    await request(asked.length - 1).answer()
    await now
    expect(told).toHaveLength(3)
  })

  test('reach every listener although one throws', async () => {
    const listing = await openListing()
    let reached = 0
    listing.onChange(() => {
      throw new Error('broken')
    })
    listing.onChange(() => (reached += 1))
    const first = listing.fresh()
    await request(0).answer(a)
    await first
    expect(reached).toBe(1)
    expect(warnings).toEqual(['A listener of the listing failed.'])
  })

  test('a kind that was learned changes the name once, and what changes no name is not told', async () => {
    const folders = new Set<BagId>()
    const listing = await openListing((id) => (folders.has(id) ? 'folder' : undefined))
    const first = listing.fresh()
    await request(0).answer(record(bag(1), 'x.zip'), record(bag(2), 'y'))
    await first
    folders.add(bag(1)).add(bag(2))
    expect(namesIn(listing)).toEqual(['x.zip', 'y'])
    let told = 0
    listing.onChange(() => (told += 1))
    for (const id of [bag(1), bag(1), bag(2), bag(3)]) listing.reindex(id)
    expect(namesIn(listing)).toEqual(['x', 'y'])
    expect(told).toBe(1)
  })

  test('a kind changes the name at whatever moment of a new listing it is learned', async () => {
    const moments = Array.from({ length: 40 }, (_, at) => at)
    const seen = new Set<string>()
    for (const moment of moments) {
      const folders = new Set<BagId>()
      const listing = await openListing((id) => (folders.has(id) ? 'folder' : undefined))
      const before = listing.current()
      const fresh = listing.refreshNow()
      await settle()
      const answered = request(moment).answer(record(bag(1), `${moment}.zip`))
      for (let turn = 0; turn < moment; turn += 1) await Promise.resolve()
      seen.add(listing.current() === before ? 'before' : 'after')
      folders.add(bag(1))
      listing.reindex(bag(1))
      await Promise.all([fresh, answered])
      expect(namesIn(listing)).toEqual([`${moment}`])
    }
    expect([...seen]).toEqual(['before', 'after'])
  })
})

describe('without network', () => {
  test('a mount goes on with the last listing, old as it is', async () => {
    const odd: BagRecord = { ...record(bag(3), 'odd\ud800/\0'), size: undefined }
    const listing = await openAnswered(a, odd)
    const then = clock.now()
    await listing.close()
    clock.move(86_400_000)
    const again = await openListing()
    expect(again.current()?.records).toEqual([a, odd])
    expect(again.current()?.receivedAtMs).toBe(then)
    expect(again.status()).toEqual({ records: 2, ageMs: 86_400_000 })
    const late = again.fresh()
    await settle()
    await request(1).fail(down())
    expect((await late).records).toEqual([a, odd])
  })

  test('the first listing is kept at once, for a kill that follows', async () => {
    await openAnswered(a)
    await expect.poll(() => new ListingStore(dir).load()).toMatchObject({ records: [a] })
  })

  test('a changed listing is kept within seconds', async () => {
    await openChanged()
    clock.move(3_000)
    await expect.poll(() => new ListingStore(dir).load()).toMatchObject({ records: [b] })
  })

  test('a changed listing is kept at once when somebody needs it', async () => {
    const listing = await openChanged()
    expect(await listing.keep()).toBe(true)
    expect(await new ListingStore(dir).load()).toMatchObject({ records: [b] })
  })

  test('one that comes while another is being kept is kept after it', async () => {
    const listing = await openAnswered(a)
    const kept = listing.keep()
    const later = listing.refreshNow()
    await settle()
    await request(1).answer(a, b)
    await later
    expect(await kept).toBe(true)
    expect(await listing.keep()).toBe(true)
    expect(await new ListingStore(dir).load()).toMatchObject({ records: [a, b] })
  })

  test('who needs a listing kept hears that it is not, and it is kept when it can be', async () => {
    const listing = await openChanged()
    await rm(dir, { recursive: true })
    await writeFile(dir, 'in the way')
    expect(await listing.keep()).toBe(false)
    await rm(dir)
    expect(await listing.keep()).toBe(true)
    expect(await new ListingStore(dir).load()).toMatchObject({ records: [b] })
  })

  test.each(['', '{"version":1', '{"version":9,"records":[]}', '[]'])(
    'a kept listing of %j is as good as none',
    async (text) => {
      await writeFile(join(dir, 'listing.json'), text)
      expect((await openListing()).current()).toBeUndefined()
    },
  )

  test('a listing that cannot be kept is a warning', async () => {
    const listing = await openChanged()
    await rm(dir, { recursive: true })
    await writeFile(dir, 'in the way')
    await listing.close()
    expect(warnings).toEqual(['The listing could not be kept.'])
    expect(await readFile(dir, 'utf8')).toBe('in the way')
  })
})

test('close gives up the request in flight and nothing can be asked after', async () => {
  const listing = await openListing()
  const first = listing.fresh()
  await Promise.all([expect(first).rejects.toMatchObject({ code: 'interrupted' }), listing.close()])
  expect(request(0).signal?.aborted).toBe(true)
  await expect(listing.fresh()).rejects.toMatchObject({ code: 'interrupted' })
  await expect(listing.refreshNow()).rejects.toMatchObject({ code: 'interrupted' })
  expect(warnings).toEqual([])
})
