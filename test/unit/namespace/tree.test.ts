import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encodeName } from '../../../src/domain/names.ts'
import { fileNameOf, toBagId, type BagId } from '../../../src/domain/ids.ts'
import { IntentIndex } from '../../../src/intents/intent-index.ts'
import type { Intent } from '../../../src/intents/intent.ts'
import { changeOfItsOwn } from '../../../src/intents/rules.ts'
import type { BagRecord } from '../../../src/domain/record.ts'
import type { Entry } from '../../../src/namespace/entry.ts'
import { indexListing } from '../../../src/namespace/listing-index.ts'
import { buildTree, type Tree } from '../../../src/namespace/tree.ts'
import { bag, intentId, put, record, remove } from './builders.ts'
import { referenceTree } from './reference-tree.ts'

const head = (number: number, length = 8): string => fileNameOf(bag(number)).slice(0, length)
const keyOf = (entry: Entry): string =>
  entry.kind === 'bag' ? `bag ${entry.record.bagId}` : `put ${entry.intent.id}`
const shownIn = (tree: Tree): Map<string, string> =>
  new Map(Array.from(tree.entries(), (entry) => [entry.shown, keyOf(entry)]))
const treeOf = (
  records: readonly BagRecord[],
  intents: readonly Intent[] = [],
  folders: ReadonlySet<BagId> = new Set(),
): Tree =>
  buildTree(
    indexListing(records, (id) => (folders.has(id) ? 'folder' : undefined)),
    intents,
  )
const names = (tree: Tree): string[] => Array.from(tree.entries(), ({ shown }) => shown).sort()

/** Bags with heads that clash: the digit decides where their ids part. */
const clashing = (length: number, last: string): BagId =>
  toBagId('a'.repeat(length) + last.repeat(64 - length))
const someBag = fc.oneof(
  fc.integer({ min: 0, max: 9 }).map(bag),
  fc.constantFrom(...[8, 12, 20].flatMap((at) => ['b', 'c'].map((last) => clashing(at, last)))),
  fc.constantFrom('short', 'not/hex').map(toBagId),
)
/** Few names, among them those that a duplicate would get. */
const someName = fc.oneof(
  fc.constantFrom('a.txt', 'b', 'c.tar.gz', 'd.zip', 'd', '', '..', 'x/y', '.bags', 'q‛'),
  fc
    .tuple(someBag, fc.constantFrom(8, 12, 16))
    .map(([id, length]) => `a (${fileNameOf(id).slice(0, length)}).txt`),
)
const someRecord = fc
  .tuple(someBag, someName, fc.integer({ min: 0, max: 3 }))
  .map(([id, name, at]) => record(id, name, at))
const someRecords = fc.array(someRecord, { maxLength: 25 })
const someFolders = fc.array(someBag, { maxLength: 4 }).map((ids) => new Set(ids))
const someIntents = fc
  .array(
    fc.record({
      isPut: fc.boolean(),
      name: someName,
      phase: fc.constantFrom('held', 'local', 'waiting', 'confirmed', 'confirmed'),
      replaces: fc.array(someBag, { maxLength: 2 }),
      supersedes: fc.array(fc.nat(7), { maxLength: 1 }),
      bagId: someBag,
      at: fc.integer({ min: 0, max: 3 }),
    }),
    { maxLength: 8 },
  )
  .map((drafts) =>
    drafts.map((draft, number): Intent => {
      const { name, phase, replaces, bagId } = draft
      const supersedes = draft.supersedes.filter((one) => one < number).map(intentId)
      const confirmed = phase === 'confirmed' ? { confirmedAtMs: draft.at } : {}
      if (!draft.isPut) return remove(number, replaces, { name, phase, supersedes, ...confirmed })
      const given = phase === 'confirmed' ? { bagId } : {}
      return put(number, name, { phase, replaces, supersedes, ...confirmed, ...given })
    }),
  )

describe('duplicate names', () => {
  test('the newest has the plain name and each older one the head of its id before the extension', () => {
    const tree = treeOf([
      record(bag(1), 'a.tar.gz', 5),
      record(bag(2), 'a.tar.gz', 9),
      record(bag(3), 'a.tar.gz', 7),
    ])
    expect(tree.get('a.tar.gz')).toMatchObject({ record: { bagId: bag(2) } })
    expect(tree.get(`a (${head(1)}).tar.gz`)).toMatchObject({ record: { bagId: bag(1) } })
    expect(tree.get(`a (${head(3)}).tar.gz`)).toMatchObject({ record: { bagId: bag(3) } })
    expect(tree.size).toBe(3)
  })

  test('a head that two share, or that somebody took as a name, gets longer', () => {
    const [one, two] = [clashing(10, 'b'), clashing(10, 'c')]
    const tree = treeOf([
      record(bag(1), 'a', 9),
      record(one, 'a', 1),
      record(two, 'a', 2),
      record(bag(4), `a (${two.slice(0, 12)})`),
    ])
    expect(names(tree)).toEqual(
      ['a', `a (${one.slice(0, 12)})`, `a (${two.slice(0, 12)})`, `a (${two.slice(0, 16)})`].sort(),
    )
    expect(tree.get(`a (${two.slice(0, 12)})`)).toMatchObject({ record: { bagId: bag(4) } })
  })

  test('even a whole id is not too long to clash', () => {
    const own = fileNameOf(bag(2))
    const taken = [8, 12, 16, 32, 64].map((length) =>
      record(bag(10 + length), `a (${own.slice(0, length)})`),
    )
    const tree = treeOf([record(bag(1), 'a', 2), record(bag(2), 'a', 1), ...taken])
    expect(tree.size).toBe(7)
    expect(Array.from(tree.entries()).filter((one) => one.record?.bagId === bag(2))).toHaveLength(1)
    expect(shownIn(tree).size).toBe(7)
  })

  test('one bag under two long names that are cut alike is two entries', () => {
    const [one, two] = [`${'x'.repeat(248)}1.txt`, `${'x'.repeat(248)}2.txt`]
    const tree = treeOf([
      record(bag(1), one),
      record(bag(1), two),
      record(bag(2), one, 5),
      record(bag(3), two, 5),
    ])
    expect(shownIn(tree).size).toBe(4)
    for (const { shown } of tree.entries()) {
      expect(Buffer.byteLength(shown)).toBeLessThanOrEqual(255)
      expect(tree.get(shown)?.shown).toBe(shown)
    }
  })

  test('a bag that is listed twice is one entry under one name, two under two', () => {
    expect(names(treeOf([record(bag(1), 'a', 1), record(bag(1), 'a', 2)]))).toEqual(['a'])
    const tree = treeOf([record(bag(1), 'a'), record(bag(1), 'b')])
    expect(names(tree)).toEqual(['a', 'b'])
    expect(tree.usesOf(bag(1))).toBe(2)
    expect(tree.usesOf(bag(2))).toBe(0)
  })
})

test('a folder bag goes without its .zip, a file keeps it, a bag called .zip too', () => {
  const records = [record(bag(1), 'a.zip'), record(bag(2), 'b.zip'), record(bag(3), '.zip')]
  expect(names(treeOf(records, [], new Set([bag(1), bag(3)])))).toEqual(['.zip', 'a', 'b.zip'])
})

test('resolve takes a shown name first and then the name at the service', () => {
  const tree = treeOf([record(bag(1), 'a‛b'), record(bag(2), 'x\ny'), record(bag(3), 'x‛0Ay')])
  expect(tree.resolve('a‛b')).toMatchObject({ record: { bagId: bag(1) } })
  expect(tree.resolve('a‛‛b')).toMatchObject({ record: { bagId: bag(1) } })
  expect(tree.resolve('x‛0Ay')).toMatchObject({ record: { bagId: bag(2) } })
  expect(tree.resolve('x‛‛0Ay')).toMatchObject({ record: { bagId: bag(3) } })
  expect(tree.resolve('nothing')).toBeUndefined()
})

describe('intents', () => {
  test('a pending put has the plain name and what it replaces is hidden', () => {
    const old = [record(bag(1), 'a', 9), record(bag(2), 'a', 8)]
    const tree = treeOf(old, [put(1, 'a', { replaces: [bag(1)] })])
    expect(tree.get('a')).toMatchObject({ kind: 'pending', intent: { id: intentId(1) } })
    expect(names(tree)).toEqual(['a', `a (${head(2)})`])
    expect(tree.usesOf(bag(1))).toBe(0)
  })

  test('of two live puts of one name the later has it and the earlier shows its id', () => {
    const tree = treeOf([], [put(2, 'a.c'), put(1, 'a.c')])
    expect(tree.get('a.c')).toMatchObject({ intent: { id: intentId(2) } })
    expect(names(tree)).toEqual([`a (${intentId(1).slice(0, 8)}).c`, 'a.c'])
  })

  test('a superseded put shows nothing, nor does the bag it was given, and what it replaces stays hidden', () => {
    const first = put(1, 'a', { phase: 'confirmed', bagId: bag(2), replaces: [bag(1)] })
    const listed = [record(bag(1), 'a'), record(bag(2), 'a')]
    const tree = treeOf(listed, [first, put(2, 'b', { supersedes: [intentId(1)] })])
    expect(names(tree)).toEqual(['b'])
    expect(names(treeOf(listed, [first, remove(2, [], { supersedes: [intentId(1)] })]))).toEqual([])
  })

  test('a confirmed put shows its bag until the listing does', () => {
    const done = put(1, 'a', { phase: 'confirmed', bagId: bag(1), confirmedAtMs: 7 })
    expect(treeOf([], [done]).get('a')).toEqual({
      shown: 'a',
      kind: 'bag',
      record: { bagId: bag(1), name: 'a', size: 1, uploadedAtMs: 7, description: '' },
    })
    const listed = { ...record(bag(1), 'a', 3), size: 99 }
    expect(treeOf([listed], [done]).get('a')?.record).toBe(listed)
    expect(treeOf([listed], [done]).size).toBe(1)
    expect(names(treeOf([record(bag(1), 'other')], [done]))).toEqual(['a', 'other'])
  })

  test('a bag is back when a later put was given the same id, and only then', () => {
    const listed = [record(bag(1), 'a')]
    const again = { phase: 'confirmed', bagId: bag(1) } as const
    expect(names(treeOf(listed, [remove(1, [bag(1)])]))).toEqual([])
    expect(names(treeOf(listed, [remove(1, [bag(1)]), put(2, 'a', again)]))).toEqual(['a'])
    expect(names(treeOf([], [remove(1, [bag(1)]), put(2, 'a', again)]))).toEqual(['a'])
    expect(names(treeOf(listed, [put(1, 'a', again), remove(2, [bag(1)])]))).toEqual([])
    expect(names(treeOf([], [put(1, 'a', again), remove(2, [bag(1)])]))).toEqual([])
    expect(names(treeOf(listed, [put(1, 'a', { ...again, replaces: [bag(1)] })]))).toEqual(['a'])
  })
})

describe('an upload that nobody knows to have arrived', () => {
  const sent = { sentAtMs: 1, namesakes: [] }

  test('shows once, although the listing has a bag that looks like it', () => {
    const tree = treeOf([record(bag(1), 'a')], [put(1, 'a', sent)])
    expect(shownIn(tree)).toEqual(new Map([['a', `put ${intentId(1)}`]]))
  })

  test('does not stand for bags of other sizes or descriptions, or that were there before', () => {
    const others = [
      { ...record(bag(1), 'a'), size: 2 },
      { ...record(bag(2), 'a'), description: 'another' },
      record(bag(3), 'a'),
    ]
    const tree = treeOf(others, [put(1, 'a', { ...sent, namesakes: [bag(3)] })])
    expect(tree.size).toBe(4)
  })

  test('hides no bag once another put is known to have made it', () => {
    const other = { content: { from: 'staged', length: 1, sha256: 'another' } } as const
    const made = put(1, 'a', { phase: 'confirmed', bagId: bag(1), ...other })
    const tree = treeOf([record(bag(1), 'a')], [made, put(2, 'a', sent)])
    expect(tree.size).toBe(2)
  })

  const listings = [[record(bag(1), 'a')], []]
  const made = put(1, 'a', { phase: 'confirmed', bagId: bag(1) })

  test.each(listings)('stands for an older bag of the same content that did not show', (...all) => {
    const tree = treeOf(all, [made, put(2, 'a', sent)])
    expect(shownIn(tree)).toEqual(new Map([['a', `put ${intentId(2)}`]]))
  })

  test.each(listings)(
    'hides no bag of the same content that showed, or has another name',
    (...all) => {
      expect(treeOf(all, [made, put(2, 'a', { ...sent, namesakes: [bag(1)] })]).size).toBe(2)
      expect(treeOf(all, [made, put(2, 'b', sent)]).size).toBe(2)
    },
  )

  test.each(listings)(
    'stands for the bag whose place it takes and whose id it was given',
    (...all) => {
      const given = { ...sent, replaces: [bag(1)], namesakes: [bag(1)], bagId: bag(1) }
      expect(shownIn(treeOf(all, [made, put(2, 'a', given)]))).toEqual(
        new Map([['a', `put ${intentId(2)}`]]),
      )
    },
  )

  test('hides no bag that was stored after it', () => {
    const tree = treeOf([], [put(1, 'a', sent), put(2, 'a', { phase: 'confirmed', bagId: bag(1) })])
    expect(tree.size).toBe(2)
  })
})

describe('for any listing and intents', () => {
  test('the patched index equals a full rebuild by the rules', () => {
    fc.assert(
      fc.property(someRecords, someIntents, someFolders, (records, intents, folders) => {
        const tree = treeOf(records, intents, folders)
        const shown = shownIn(tree)
        const expected = referenceTree(records, intents, folders)
        const fixed = (map: Map<string, string>): unknown =>
          [...map].filter(([, key]) => key.startsWith('bag')).sort()
        expect(fixed(shown)).toEqual(fixed(expected))
        expect([...shown.values()].sort()).toEqual([...expected.values()].sort())
        expect(tree.size).toBe(expected.size)
      }),
      { numRuns: 3000 },
    )
  })

  test('kinds that are learned later, one by one, make the same names', () => {
    const learned = fc.array(fc.tuple(someBag, fc.boolean()), { maxLength: 6 })
    fc.assert(
      fc.property(someRecords, someFolders, learned, (records, folders, changes) => {
        const index = indexListing(records, (id) => (folders.has(id) ? 'folder' : undefined))
        for (const [id, isFolder] of changes) {
          // Names that were asked for before must not be remembered.
          Array.from(buildTree(index, []).entries())
          if (isFolder) folders.add(id)
          else folders.delete(id)
          index.learnKind(id)
          const now = treeOf(records, [], folders)
          expect(shownIn(buildTree(index, []))).toEqual(shownIn(now))
          expect(index.size).toBe(now.size)
          for (const shown of names(now)) {
            expect(buildTree(index, []).get(shown)).toEqual(now.get(shown))
          }
        }
      }),
      { numRuns: 1000 },
    )
  })

  test('each entry is found under its shown name, which is unique and valid', () => {
    fc.assert(
      fc.property(someRecords, someIntents, (records, intents) => {
        const tree = treeOf(records, intents)
        const entries = [...tree.entries()]
        expect(new Set(entries.map(({ shown }) => shown)).size).toBe(entries.length)
        expect(tree.size).toBe(entries.length)
        for (const entry of entries) {
          expect(tree.get(entry.shown)).toEqual(entry)
          expect(entry.shown).toMatch(/^[^/\0]+$/)
          expect(['.', '..', '.bagfs', '.bags']).not.toContain(entry.shown)
        }
      }),
      { numRuns: 500 },
    )
  })

  test('without intents every record shows exactly once', () => {
    fc.assert(
      fc.property(someRecords, (records) => {
        const entries = [...treeOf(records).entries()]
        for (const { bagId, name } of records) {
          const same = entries.filter(
            (one) => one.record?.bagId === bagId && one.record.name === name,
          )
          expect(same).toHaveLength(1)
        }
      }),
      { numRuns: 500 },
    )
  })

  test('the order of the records does not matter', () => {
    fc.assert(
      fc.property(
        someRecords.chain((records) =>
          fc.tuple(
            fc.constant(records),
            fc.shuffledSubarray(records, { minLength: records.length }),
          ),
        ),
        someIntents,
        ([records, shuffled], intents) => {
          const byName = (tree: Tree): unknown =>
            [...tree.entries()].sort((one, other) => (one.shown < other.shown ? -1 : 1))
          expect(byName(treeOf(shuffled, intents))).toEqual(byName(treeOf(records, intents)))
        },
      ),
      { numRuns: 500 },
    )
  })

  test('uses are counted as the entries show them', () => {
    fc.assert(
      fc.property(someRecords, someIntents, someBag, (records, intents, id) => {
        const tree = treeOf(records, intents)
        const used = [...tree.entries()].filter(({ record: one }) => one?.bagId === id)
        expect(tree.usesOf(id)).toBe(used.length)
      }),
      { numRuns: 500 },
    )
  })
})

/**
 * Stability, exactly: a record of another service name that comes moves a name only when it takes
 * that very name as its plain one; a record that goes moves a name only by freeing one.
 */
test('names stay when records of other names come and go', () => {
  fc.assert(
    fc.property(someRecords, someRecord, (records, newcomer) => {
      const others = records.filter(({ name }) => name !== newcomer.name)
      const before = shownIn(treeOf(others))
      const after = shownIn(treeOf([...others, newcomer]))
      for (const [shown, key] of before) {
        if (shown !== encodeName(newcomer.name)) expect(after.get(shown)).toBe(key)
      }
      for (const [shown, key] of after) {
        const isNew = shown === encodeName(newcomer.name)
        const makesRoom = before.has(encodeName(newcomer.name)) && !before.has(shown)
        if (!isNew && !makesRoom) expect(before.get(shown)).toBe(key)
      }
    }),
    { numRuns: 2000 },
  )
})

test('one listing serves any number of trees', () => {
  const index = indexListing([record(bag(1), 'a'), record(bag(2), 'a')])
  const first = buildTree(index, [remove(1, [bag(1)])])
  expect(names(buildTree(index, []))).toHaveLength(2)
  expect(names(first)).toEqual(['a'])
})

test('a change touches its own names only, however many are listed', () => {
  const records = Array.from({ length: 20_000 }, (_, n) => record(bag(n), `file ${n}.txt`))
  const index = indexListing(records)
  let reads = 0
  const watched = new Proxy(index, {
    get: (target, key) => {
      reads += 1
      const value: unknown = Reflect.get(target, key, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
  const tree = buildTree(watched, [
    put(1, 'file 7.txt', { replaces: [bag(7)] }),
    remove(2, [bag(8)]),
  ])
  expect(tree.get('file 7.txt')?.kind).toBe('pending')
  expect(tree.size).toBe(19_999)
  expect(reads).toBeLessThan(50)
})

function intentOf(draft: {
  readonly number: number
  readonly name: string
  readonly phase: Intent['phase']
  readonly replaces: readonly BagId[]
  readonly supersedes: readonly number[]
  readonly isPut: boolean
  readonly bagId: BagId
  readonly sentAtMs: number | undefined
}): Intent {
  const { number, name, phase, replaces, bagId, sentAtMs } = draft
  const supersedes = draft.supersedes.filter((one) => one < number).map(intentId)
  if (!draft.isPut) return remove(number, replaces, { name, phase, supersedes })
  const stored = phase === 'confirmed' ? { bagId, confirmedAtMs: 1 } : {}
  const sent = sentAtMs === undefined ? {} : { sentAtMs }
  return put(number, name, { phase, replaces, supersedes, ...stored, ...sent })
}

test('a tree that follows changes is the one that is built of them', () => {
  const change = fc.record({
    number: fc.nat(5),
    name: someName,
    phase: fc.constantFrom('held', 'local', 'waiting', 'confirmed', 'gone'),
    replaces: fc.array(someBag, { maxLength: 1 }),
    supersedes: fc.oneof(
      { weight: 3, arbitrary: fc.constant([]) },
      { weight: 1, arbitrary: fc.tuple(fc.nat(5)) },
    ),
    isPut: fc.boolean(),
    keepsName: fc.boolean(),
    bagId: someBag,
    sentAtMs: fc.constantFrom(undefined, 1),
  })
  const followed = { put: 0, delete: 0 }
  fc.assert(
    fc.property(fc.array(someRecord, { maxLength: 6 }), fc.array(change), (records, changes) => {
      const trees = new FollowedTree(records)
      for (const { number, phase, keepsName, ...given } of changes) {
        const before = trees.all.get(intentId(number))
        const name = keepsName && before !== undefined ? before.name : given.name
        const after = phase === 'gone' ? undefined : intentOf({ ...given, number, phase, name })
        const own = trees.change(before, after)
        if (own !== undefined) followed[own.kind] += 1
      }
    }),
    { numRuns: 1_000 },
  )
  expect(Math.min(followed.put, followed.delete)).toBeGreaterThan(100)
})

test('a tree follows deletes of what was stored a moment ago, and is the one that is built of them', () => {
  const step = fc.record({ name: someName, bagId: someBag, isDelete: fc.boolean() })
  let followed = 0
  fc.assert(
    fc.property(fc.array(someRecord, { maxLength: 4 }), fc.array(step), (records, steps) => {
      const trees = new FollowedTree(records)
      for (const [number, { name, bagId, isDelete }] of steps.entries()) {
        if (isDelete) {
          const own = trees.change(undefined, remove(number, [bagId], { name }))
          const isStored = trees.all.ofBag(bagId).some(({ kind }) => kind === 'put')
          if (own !== undefined && isStored) followed += 1
        } else {
          const waiting = put(number, name)
          trees.change(undefined, waiting)
          trees.change(waiting, put(number, name, { phase: 'confirmed', bagId, confirmedAtMs: 1 }))
        }
      }
    }),
    { numRuns: 2_500 },
  )
  expect(followed).toBeGreaterThan(100)
})

/** A tree that follows changes where it can, beside one that is built of all of them each time. */
class FollowedTree {
  readonly all = new IntentIndex()
  readonly #records: readonly BagRecord[]
  #tree: Tree

  constructor(records: readonly BagRecord[]) {
    this.#records = records
    this.#tree = treeOf(records, [])
  }

  /** Answers the intent where the tree followed its change. Throws where it is another tree then. */
  change(before: Intent | undefined, after: Intent | undefined): Intent | undefined {
    if (after !== undefined) this.all.set(after)
    else if (before !== undefined) this.all.delete(before.id)
    const own = changeOfItsOwn(this.all, before, after)
    const isFollowed = own !== undefined && this.#tree.follow(own.before, own.after)
    const built = treeOf(this.#records, this.all.intents())
    if (!isFollowed) this.#tree = built
    expect(shownIn(this.#tree)).toEqual(shownIn(built))
    expect(this.#tree.size).toBe(built.size)
    for (const one of Array.from({ length: 10 }, (_, at) => bag(at))) {
      expect(this.#tree.usesOf(one)).toBe(built.usesOf(one))
      expect(this.#tree.shownAs(one) === undefined).toBe(built.shownAs(one) === undefined)
    }
    return isFollowed ? own.after : undefined
  }
}
