import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { BagId } from '../../../src/domain/ids.ts'
import type { Intent, PutIntent } from '../../../src/intents/intent.ts'
import type { BagRecord } from '../../../src/domain/record.ts'
import {
  expireIntents,
  findKeptOtherwise,
  findMissing,
  type KnownBags,
} from '../../../src/intents/expire.ts'
import { buildTree, indexListing } from '../../../src/namespace/tree.ts'
import { bag, intentId, put, record, remove } from '../namespace/builders.ts'

const LAG = 600_000
const LAGS = { usualMs: 50, longestMs: LAG }
const listing = (startedAtMs: number, ...bags: readonly BagId[]): KnownBags => ({
  startedAtMs,
  index: indexListing(bags.map((id) => record(id, 'a'))),
})
const done = { phase: 'confirmed', confirmedAtMs: 100 } as const
const finished = (number: number, bagId: BagId, rest: Partial<PutIntent> = {}): PutIntent =>
  put(number, 'a', { ...done, bagId, replacedAreDeleted: true, ...rest })
const expired = (from: KnownBags, ...intents: readonly Intent[]): unknown =>
  expireIntents(from, intents, LAGS).map(({ id }) => id)

describe('a confirmed put', () => {
  const one = finished(1, bag(1), { replaces: [bag(2)] })

  test('goes when a listing after the usual lag shows its bag and none of what it replaces', () => {
    expect(expired(listing(150, bag(1), bag(9)), one)).toEqual([one.id])
    expect(expired(listing(150), one)).toEqual([])
    expect(expired(listing(150, bag(1), bag(2)), one)).toEqual([])
  })

  test('stays for the usual lag, since a listing of before may follow one that agrees', () => {
    expect(expired(listing(149, bag(1)), one)).toEqual([])
  })

  test('is not judged by a listing that was asked for before the confirmation', () => {
    expect(expired(listing(100, bag(1)), one)).toEqual([])
  })

  test('goes after the lag whatever the listing says', () => {
    expect(expired(listing(99 + LAG), one)).toEqual([])
    expect(expired(listing(100 + LAG), one)).toEqual([one.id])
    expect(expired(listing(100 + LAG, bag(1), bag(2)), one)).toEqual([one.id])
  })

  test('stays as long as what it replaces is still to be deleted, for any time', () => {
    const { replacedAreDeleted, ...unfinished } = one
    expect(replacedAreDeleted).toBe(true)
    expect(expired(listing(100 + 9 * LAG, bag(1)), unfinished)).toEqual([])
  })

  test('may have got the id of what it replaces', () => {
    const same = finished(1, bag(1), { replaces: [bag(1)] })
    expect(expired(listing(150, bag(1)), same)).toEqual([same.id])
  })
})

describe('a put whose bag is missing in a later listing', () => {
  const one = finished(1, bag(1), { replaces: [bag(2)] })
  const missing = (from: KnownBags, ...intents: readonly Intent[]): unknown =>
    findMissing(from, intents).map(({ bagId }) => bagId)
  const goes = (from: KnownBags, ...intents: readonly Intent[]): unknown =>
    expireIntents(from, intents, LAGS, { gone: new Set([bag(1)]) }).map(({ id }) => id)

  test('is asked for, and goes when it is gone', () => {
    expect(missing(listing(101), one)).toEqual([bag(1)])
    expect(goes(listing(101), one)).toEqual([one.id])
  })

  test('stays while what it replaces is listed: that must not come back', () => {
    expect(goes(listing(101, bag(2)), one)).toEqual([])
  })

  test('is not asked for when the listing is older, has it, or something else took its place', () => {
    expect(missing(listing(100), one)).toEqual([])
    expect(missing(listing(101, bag(1)), one)).toEqual([])
    expect(missing(listing(101), one, remove(2, [bag(1)]))).toEqual([])
    expect(missing(listing(101), { ...one, phase: 'waiting' })).toEqual([])
  })
})

test('a confirmed delete goes when a listing after the usual lag lacks its bags, or after the longest', () => {
  const one = remove(1, [bag(1), bag(2)], done)
  expect(expired(listing(149, bag(9)), one)).toEqual([])
  expect(expired(listing(150, bag(9)), one)).toEqual([one.id])
  expect(expired(listing(150, bag(2)), one)).toEqual([])
  expect(expired(listing(100 + LAG, bag(1)), one)).toEqual([one.id])
})

test('a confirmed delete goes at once when the service has its bag again', () => {
  const one = remove(1, [bag(1)], done)
  const back = { back: new Set([bag(1)]) }
  expect(expireIntents(listing(101, bag(1)), [one], LAGS, back)).toEqual([one])
})

test('what is not confirmed never goes', () => {
  const intents = [
    put(1, 'a'),
    put(2, 'a', { phase: 'held' }),
    put(3, 'a', { phase: 'local' }),
    remove(4, [bag(1)]),
    put(5, 'a', { phase: 'waiting', confirmedAtMs: 1, bagId: bag(1), replacedAreDeleted: true }),
  ]
  expect(expired(listing(9 * LAG, bag(1)), ...intents)).toEqual([])
})

describe('a put whose bag a listing has under other names', () => {
  const one = finished(1, bag(1))
  const all = { successorOf: () => undefined }
  const listedAs = (...names: readonly string[]) => ({
    index: indexListing(names.map((name) => record(bag(1), name))),
  })

  test('is told, with the name that the listing has', () => {
    expect(findKeptOtherwise(listedAs('b'), [one], all)).toEqual([{ put: one, listedAs: 'b' }])
  })

  test.each([
    ['it is listed under its name, too', listedAs('b', 'a'), one, all],
    ['it is in no listing', listedAs(), one, all],
    ['another put took its place', listedAs('b'), one, { successorOf: () => one }],
    ['it is a delete', listedAs('b'), remove(1, [bag(1)]), all],
    [
      'it is a folder, and the listing has the name of its zip',
      listedAs('a.zip'),
      { ...one, isFolder: true },
      all,
    ],
  ])('is none where %s', (_why, from, intent, known) => {
    expect(findKeptOtherwise(from, [intent], known)).toEqual([])
  })
})

describe('intents that hold each other in check', () => {
  const again = finished(2, bag(1), { confirmedAtMs: 200 })

  test('a delete and a later put of the same bag go together', () => {
    expect(expired(listing(250, bag(1)), remove(1, [bag(1)], done), again)).toEqual([
      intentId(1),
      intentId(2),
    ])
  })

  test('a put stays while an earlier delete of the same bag does', () => {
    expect(expired(listing(250, bag(1)), remove(1, [bag(1)]), again)).toEqual([])
  })

  test('a put whose bag was deleted since goes with the delete, not after it', () => {
    const old = finished(1, bag(1))
    const gone = remove(2, [bag(1)], { ...done, confirmedAtMs: 200 })
    expect(expired(listing(250), old, gone)).toEqual([old.id, gone.id])
    expect(expired(listing(250), { ...old, confirmedAtMs: 300 }, gone)).toEqual([])
  })

  test('a superseded put stays while the one in its place does not name its bag', () => {
    const old = finished(1, bag(1))
    const next = { supersedes: [old.id] }
    expect(expired(listing(150, bag(1)), old, put(2, 'a', next))).toEqual([])
    expect(
      expired(listing(150, bag(1)), old, put(2, 'a', { ...next, replaces: [bag(1)] })),
    ).toEqual([old.id])
  })

  test('a put stays while its bag could be taken for what an older one may have sent', () => {
    const sent = put(1, 'a', { sentAtMs: 50, namesakes: [] })
    const content = { from: 'staged', length: 1, sha256: 'other' } as const
    const next = finished(2, bag(2), { content })
    expect(expired(listing(150, bag(2)), sent, next)).toEqual([])
    expect(expired(listing(150, bag(2)), { ...sent, content }, next)).toEqual([next.id])
    expect(expired(listing(150, bag(2)), { ...sent, namesakes: [bag(2)] }, next)).toEqual([next.id])
    expect(expired(listing(100 + LAG), sent, next)).toEqual([next.id])
  })

  test('a put stays while one that it supersedes does', () => {
    const next = finished(2, bag(2), { supersedes: [intentId(1)] })
    expect(expired(listing(150, bag(2)), put(1, 'a'), next)).toEqual([])
  })
})

/** Names follow from bags, as in a listing that has caught up. */
const nameOf = (number: number): string => `file ${number % 3}`
const someIntents = fc
  .array(
    fc.record({
      isPut: fc.boolean(),
      given: fc.nat(5),
      confirmed: fc.boolean(),
      sent: fc.boolean(),
      replaces: fc.array(fc.nat(5), { maxLength: 2 }),
      supersedes: fc.array(fc.nat(7), { maxLength: 1 }),
    }),
    { maxLength: 8 },
  )
  .map((drafts) =>
    drafts.map((draft, number): Intent => {
      const base = {
        ...(draft.confirmed ? { phase: 'confirmed' as const, confirmedAtMs: 1 } : {}),
        replaces: draft.replaces.map(bag),
        supersedes: draft.supersedes.filter((one) => one < number).map(intentId),
      }
      if (!draft.isPut) return remove(number, base.replaces, base)
      const given = draft.confirmed
        ? { bagId: bag(draft.given), replacedAreDeleted: true }
        : draft.sent
          ? { sentAtMs: 1, namesakes: [] }
          : {}
      const content = { from: 'staged', length: 1, sha256: String(number) } as const
      return put(number, nameOf(draft.given), { ...base, ...given, content })
    }),
  )

test('what a listing within the lag makes go changes no name of the tree', () => {
  let went = 0
  fc.assert(
    fc.property(someIntents, fc.uniqueArray(fc.nat(5)), (intents, listed) => {
      const records = listed.map((number): BagRecord => record(bag(number), nameOf(number)))
      const gone = expireIntents({ index: indexListing(records), startedAtMs: 51 }, intents, LAGS)
      went += gone.length
      const rest = intents.filter((intent) => !gone.includes(intent))
      const shown = (left: readonly Intent[]): unknown =>
        Array.from(buildTree(indexListing(records), left).entries(), (entry) => [
          entry.shown,
          entry.record?.bagId,
        ]).sort()
      expect(shown(rest)).toEqual(shown(intents))
    }),
    { numRuns: 5000 },
  )
  expect(went).toBeGreaterThan(1000)
})
