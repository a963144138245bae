import { describe, expect, it } from 'vitest'
import type { IntentId } from '../../../src/domain/ids.ts'
import { IntentIndex } from '../../../src/intents/intent-index.ts'
import type { Intent, IntentFailure } from '../../../src/intents/intent.ts'
import { isNewTo, legacyOf, type KnownOfBags } from '../../../src/intents/legacy.ts'
import {
  awaitedFor,
  bagsToDelete,
  blockersOf,
  claimsOfBefore,
  isAsBase,
  isDone,
  isForUser,
  isHeldFile,
  isLeftToDelete,
  isLostOnItsWay,
  isNeeded,
  isOnlyChangeOf,
  isRefused,
  isStored,
  isSuperseded,
  isTaken,
  isToSend,
  mayDelete,
  supersededBy,
  withoutCycle,
  withSuperseded,
} from '../../../src/intents/rules.ts'
import { inheriting } from '../../../src/intents/claims.ts'
import { unchanged } from '../../../src/intents/rounds.ts'
import { confirmed as confirm } from '../../../src/intents/transitions.ts'
import { bag, intentId, put, remove } from '../namespace/builders.ts'

const A = bag(1)
const B = bag(2)
const C = bag(3)
const i1 = intentId(1)
const i2 = intentId(2)
const i3 = intentId(3)
const failure: IntentFailure = {
  code: 'rejected',
  message: '',
  atMs: 0,
  tries: 1,
  waitsForUser: false,
}
const forUser = { failure: { ...failure, waitsForUser: true } }
const confirmed = { phase: 'confirmed', confirmedAtMs: 1 } as const
const done = { ...confirmed, replacedAreDeleted: true } as const
const held = { phase: 'held', heldUntilMs: 9 } as const
const folder = { content: { from: 'folder' }, isFolder: true } as const

function all(...intents: readonly Intent[]): IntentIndex {
  const index = new IntentIndex()
  for (const intent of intents) index.set(intent)
  return index
}

describe('how far an intent is', () => {
  const no = {
    taken: false,
    done: false,
    toSend: false,
    forUser: false,
    refused: false,
    heldFile: false,
  }
  it.each<[string, Intent, Partial<typeof no>]>([
    ['a new put', put(1, 'a'), { toSend: true }],
    ['a put that was answered', put(1, 'a', { bagId: A }), { taken: true, toSend: true }],
    [
      'a put whose bag was seen',
      put(1, 'a', { ...confirmed, bagId: A }),
      { taken: true, toSend: true },
    ],
    ['a put with nothing left', put(1, 'a', { ...done, bagId: A }), { taken: true, done: true }],
    ['a put that failed', put(1, 'a', { failure }), { toSend: true, refused: true }],
    [
      'a put that waits for the user',
      put(1, 'a', forUser),
      { toSend: true, refused: true, forUser: true },
    ],
    ['a step of a save', put(1, 'a', held), { heldFile: true }],
    ['a folder that collects changes', put(1, 'a', { ...folder, ...held }), {}],
    ['litter', put(1, 'a', { phase: 'local' }), {}],
    ['a delete', remove(1, [A]), { toSend: true }],
    ['half of a replacement', remove(1, [A], held), {}],
    ['a delete that failed', remove(1, [A], { failure }), { toSend: true }],
    ['a delete that was done', remove(1, [A], confirmed), { taken: true, done: true }],
  ])('%s', (_, intent, expected) => {
    expect({
      taken: isTaken(intent),
      done: isDone(intent),
      toSend: isToSend(intent),
      forUser: isForUser(intent),
      refused: isRefused(intent),
      heldFile: isHeldFile(intent),
    }).toEqual({ ...no, ...expected })
  })
})

describe('what has to end before an intent is sent', () => {
  const two = put(2, 'a')
  it.each<[string, Intent, readonly Intent[], readonly IntentId[], readonly IntentId[]]>([
    ['nothing', two, [], [], []],
    ['an earlier change of its name', two, [put(1, 'a')], [], [i1]],
    ['no later change of its name', two, [put(3, 'a')], [], []],
    ['no change of another name', two, [put(1, 'b')], [], []],
    ['none that is done', two, [put(1, 'a', { ...done, bagId: A })], [], []],
    ['one with bags left to delete', two, [put(1, 'a', { ...confirmed, bagId: A })], [], [i1]],
    ['none that waits for the user', two, [put(1, 'a', forUser)], [], []],
    ['none that is held', two, [put(1, 'a', held)], [], []],
    ['none that it takes the place of', put(2, 'a', { supersedes: [i1] }), [put(1, 'a')], [], []],
    [
      'one that it takes the place of, under way',
      put(2, 'b', { supersedes: [i1] }),
      [put(1, 'a')],
      [i1],
      [i1],
    ],
    [
      'none that waits for its successor',
      two,
      [put(1, 'a'), put(3, 'c', { supersedes: [i1] })],
      [],
      [],
    ],
    [
      'one with a successor, under way',
      two,
      [put(1, 'a'), put(3, 'c', { supersedes: [i1] })],
      [i1],
      [i1],
    ],
    ['one that got its name before', put(2, 'a', { placed: i3 }), [put(1, 'a')], [], [i1]],
    ['none that got its name after', two, [put(1, 'a', { placed: i3 })], [], []],
    [
      'no delete that waits for what moved away to be stored, which may wait for this one',
      two,
      [remove(1, [A], { name: 'a', after: [{ id: i3 }] }), put(3, 'b')],
      [],
      [],
    ],
    [
      'no old version that stays until what moved away is stored',
      two,
      [put(1, 'a', { ...confirmed, bagId: A, after: [{ id: i3 }] }), put(3, 'b')],
      [],
      [],
    ],
    [
      'a delete of what moved away and is stored',
      two,
      [remove(1, [A], { name: 'a', after: [{ id: i3 }] }), put(3, 'b', { ...done, bagId: B })],
      [],
      [i1],
    ],
    [
      'for a delete, what moved away',
      remove(2, [A], { after: [{ id: i1 }] }),
      [put(1, 'b')],
      [],
      [i1],
    ],
    [
      'for an upload, not what moved away',
      put(2, 'a', { after: [{ id: i1 }] }),
      [put(1, 'b')],
      [],
      [],
    ],
    [
      'once stored, what moved away',
      put(2, 'a', { ...confirmed, after: [{ id: i1 }] }),
      [put(1, 'b')],
      [],
      [i1],
    ],
    [
      'not what moved and is stored',
      remove(2, [A], { after: [{ id: i1 }] }),
      [put(1, 'b', { ...confirmed, bagId: B })],
      [],
      [],
    ],
  ])('%s', (_, intent, others, running, expected) => {
    const index = all(intent, ...others)
    expect(blockersOf(intent, index, (id) => running.includes(id))).toEqual(expected)
  })
})

describe('whether a bag may not be deleted yet', () => {
  it.each<[string, readonly Intent[], boolean]>([
    ['nothing concerns it', [put(1, 'a')], false],
    [
      'a rename gets its content from it',
      [put(1, 'a', { content: { from: 'bag', bagId: A } })],
      true,
    ],
    ['a put that waits takes its place', [put(1, 'a', { replaces: [A] })], true],
    ['a held put takes its place', [put(1, 'a', { ...held, replaces: [A] })], true],
    [
      'the put that takes its place is stored',
      [put(1, 'a', { ...confirmed, bagId: B, replaces: [A] })],
      false,
    ],
    ['litter takes its place', [put(1, 'a', { phase: 'local', replaces: [A] })], false],
    ['a delete takes it', [remove(1, [A])], false],
    [
      'the put that takes its place was superseded by one that waits',
      [put(1, 'a', { replaces: [A] }), put(2, 'a', { supersedes: [i1] })],
      true,
    ],
    [
      'it is what a superseded put was stored as, and the successor waits',
      [put(1, 'a', { ...done, bagId: A }), put(2, 'a', { supersedes: [i1] })],
      true,
    ],
    [
      'the successor is stored',
      [put(1, 'a', { replaces: [A] }), put(2, 'a', { ...confirmed, bagId: B, supersedes: [i1] })],
      false,
    ],
    [
      'a superseded put has deleted it already',
      [
        put(1, 'a', { ...done, bagId: B, replaces: [A], deleted: [{ bagId: A, atMs: 1 }] }),
        put(2, 'a', { supersedes: [i1] }),
      ],
      false,
    ],
  ])('%s', (_, intents, expected) => {
    expect(isNeeded(all(...intents), A)).toBe(expected)
  })
})

it.each<[string, Intent, readonly unknown[]]>([
  ['all that it takes the place of', put(1, 'a', { replaces: [A, B] }), [A, B]],
  ['not its own bag: equal content', put(1, 'a', { bagId: A, replaces: [A, B] }), [B]],
  ['not what is deleted', remove(1, [A, B], { deleted: [{ bagId: A, atMs: 1 }] }), [B]],
])('an intent has to delete %s', (_, intent, expected) => {
  expect(bagsToDelete(intent)).toEqual(expected)
})

describe('whether content that moved is stored', () => {
  const changes = (start: number, packed?: number) => ({
    changes: { start, ...(packed === undefined ? {} : { packed }) },
  })
  it.each<[string, readonly Intent[], number | undefined, boolean]>([
    ['its put is done and forgotten', [], undefined, true],
    ['its put waits', [put(1, 'a')], undefined, false],
    ['its put is confirmed', [put(1, 'a', { ...confirmed, bagId: A })], undefined, true],
    ['it was deleted since', [put(1, 'a'), remove(2, [A], { supersedes: [i1] })], undefined, true],
    [
      'its successor waits',
      [put(1, 'a', { ...confirmed, bagId: A }), put(2, 'a', { supersedes: [i1] })],
      undefined,
      false,
    ],
    [
      'its successor is a folder that nothing is left in',
      [
        put(1, 'a', { ...confirmed, ...folder, bagId: A }),
        put(2, 'a', { ...folder, phase: 'local', supersedes: [i1] }),
      ],
      3,
      true,
    ],
    [
      'it has a name that stays on this machine',
      [put(1, 'a', { phase: 'local' })],
      undefined,
      true,
    ],
    [
      'it went on to a place where it waits',
      [remove(2, [A], { supersedes: [i1], after: [{ id: i3 }] }), put(3, 'b')],
      undefined,
      false,
    ],
    [
      'it went on to a place where it is confirmed',
      [
        put(1, 'a', { phase: 'local', after: [{ id: i3 }] }),
        put(3, 'b', { ...confirmed, bagId: A }),
      ],
      undefined,
      true,
    ],
    [
      'it came back, and is confirmed',
      [
        remove(2, [A], { supersedes: [i1], after: [{ id: i3 }] }),
        put(3, 'a', { ...confirmed, bagId: B, after: [{ id: i1 }] }),
      ],
      undefined,
      true,
    ],
    ['in a folder that has it', [put(1, 'a', { ...folder, ...held, ...changes(3) })], 3, true],
    ['in a folder that has less', [put(1, 'a', { ...folder, ...held, ...changes(2) })], 3, false],
    ['in a zip that is on its way', [put(1, 'a', { isFolder: true, ...changes(0, 3) })], 3, false],
    [
      'in a zip that is stored',
      [put(1, 'a', { ...confirmed, isFolder: true, ...changes(0, 3) })],
      3,
      true,
    ],
    [
      'in a zip that has less',
      [put(1, 'a', { ...confirmed, isFolder: true, ...changes(0, 2) })],
      3,
      false,
    ],
  ])('%s', (_, intents, operations, expected) => {
    const moved = { id: i1, ...(operations === undefined ? {} : { operations }) }
    const index = all(...intents)
    expect(isStored(index, moved)).toBe(expected)
    expect(mayDelete(remove(9, [B], { after: [moved] }), index)).toBe(expected)
  })

  it('never where its put was found damaged', () => {
    const index = all()
    index.setAside(i1)
    const intent = remove(9, [B], { after: [{ id: i1 }] })
    expect(isStored(index, { id: i1 })).toBe(false)
    expect(mayDelete(intent, index)).toBe(false)
    expect(isLostOnItsWay(intent, index)).toBe(true)
  })
})

describe('who takes the place of whom', () => {
  const chain = all(
    put(1, 'a'),
    put(2, 'a', { supersedes: [i1] }),
    put(3, 'a', { supersedes: [i2] }),
  )

  it('is known of each', () => {
    expect([i1, i2, i3].map((id) => isSuperseded(chain, id))).toEqual([true, true, false])
    expect(supersededBy(chain, i3).map(({ id }) => id)).toEqual([i2])
  })

  it('goes back to the first, which is last to come back', () => {
    expect(withSuperseded(chain, i3).map(({ id }) => id)).toEqual([i1, i2, i3])
  })

  it.each<[string, Intent, readonly IntentId[]]>([
    ['itself', put(3, 'a', { supersedes: [i2, i3] }), [i2]],
    ['what stands for it', put(1, 'a', { supersedes: [i3] }), []],
    ['what stands for what stands for it', put(2, 'a', { supersedes: [i1, i3] }), [i1]],
  ])('leaves out %s', (_, intent, expected) => {
    expect(withoutCycle(chain, intent).supersedes).toEqual(expected)
  })

  it('is as it was where nothing is in a circle', () => {
    const intent = put(4, 'a', { supersedes: [i3] })
    expect(withoutCycle(chain, intent)).toBe(intent)
  })

  it('ends at one that is stored', () => {
    chain.set(put(1, 'a', { ...confirmed, bagId: A }))
    expect(withSuperseded(chain, i3).map(({ id }) => id)).toEqual([i2, i3])
  })
})

it.each<[string, Intent, boolean]>([
  ['a delete', remove(1, [A]), true],
  ['a stored put with bags left', put(1, 'a', { ...confirmed, bagId: A, replaces: [B] }), true],
  ['a put that waits', put(1, 'a'), false],
  ['a put that is done', put(1, 'a', { ...done, bagId: A }), false],
])('only deletes are left of %s: %s', (_, intent, expected) => {
  expect(isLeftToDelete(all(intent), intent)).toBe(expected)
  expect(isLeftToDelete(all(intent, put(2, 'a', { supersedes: [i1] })), intent)).toBe(false)
})

it('the reader of a bag is the last put that gets its content there', () => {
  const rename = put(1, 'b', { content: { from: 'bag', bagId: A } })
  expect(awaitedFor(all(rename), A)).toEqual([rename])
  expect(awaitedFor(all(rename), B)).toEqual([])
  expect(awaitedFor(all(rename, put(2, 'c', { supersedes: [i1] })), A)).toEqual([])
})

describe('a rename is the only change of its bag', () => {
  const rename = put(1, 'b', { replaces: [A], content: { from: 'bag', bagId: A } })
  it.each<[string, Intent, readonly Intent[], boolean]>([
    ['alone', rename, [], true],
    ['not where it takes the place of more', put(1, 'b', { replaces: [A, B] }), [], false],
    ['not where it took over another', put(1, 'b', { replaces: [A], supersedes: [i2] }), [], false],
    ['not where another is to delete the bag', rename, [remove(2, [A])], false],
    ['not where the old name is used again', rename, [put(2, 'a')], false],
  ])('%s', (_, intent, others, expected) => {
    const index = all(intent, ...others)
    if (intent.kind !== 'put') throw new Error('This is no rename.')
    expect(isOnlyChangeOf(index, intent, { bagId: A, name: 'a' })).toBe(expected)
  })
})

it('what meant a bag before its id was given again is known, but for what takes the place of that', () => {
  const given = put(2, 'a', { bagId: A })
  const before = remove(1, [A])
  const after = put(3, 'a', { supersedes: [i2], replaces: [A] })
  expect(claimsOfBefore(all(before, given, after), given, A)).toEqual([before])
})

it('what is told last of an upload of this machine counts', () => {
  const knowing = put(1, 'a', {
    ownUploads: [
      { bagId: A, atMs: 1 },
      { bagId: B, atMs: 1 },
    ],
  })
  const none = { bags: [], puts: [], deleted: [], uploaded: [], after: [] }
  const told = inheriting(knowing, { ...none, ownUploads: [{ bagId: A, atMs: 7 }] })
  expect(told).toMatchObject({
    ownUploads: [
      { bagId: B, atMs: 1 },
      { bagId: A, atMs: 7 },
    ],
  })
})

it('a folder is as its base again where that was not stored anew', () => {
  const changed = put(1, 'a', { changes: { base: A, start: 0 }, sentAtMs: 1 })
  expect(isAsBase(unchanged(changed, A, 2))).toBe(true)
  expect(isAsBase(confirm(changed, A, 2))).toBe(false)
  expect(isAsBase(confirm(changed, B, 2))).toBe(false)
  expect(isAsBase(changed)).toBe(false)
})

describe('what a superseded put leaves', () => {
  const nothing = {
    ...{ put: i2, bags: [], puts: [], deleted: [], after: [] },
    ...{ uploaded: [], ownUploads: [] },
  }
  const known: KnownOfBags = { isListed: () => false, mayLag: false, receiving: [] }
  const successor = put(9, 'a', { supersedes: [i2] })
  const gone = [{ bagId: B, atMs: 1 }]
  const stored = { ...done, bagId: A, replaces: [B], deleted: gone } as const
  it.each<[string, Parameters<typeof put>[2], readonly Intent[], Partial<KnownOfBags>, object]>([
    ['nothing, of one that took the place of nothing', {}, [], {}, {}],
    ['what it was to delete', { replaces: [B] }, [], {}, { bags: [B] }],
    ['its own bag too', { bagId: A, replaces: [B] }, [], {}, { bags: [B, A], given: A }],
    ['not what it has deleted', stored, [], {}, { bags: [A], given: A, deleted: gone }],
    [
      'what it has deleted while a listing may lag',
      stored,
      [],
      { mayLag: true },
      { bags: [B, A], given: A, deleted: gone },
    ],
    [
      'what it has deleted and is listed',
      stored,
      [],
      { isListed: () => true },
      { bags: [B, A], given: A, deleted: gone },
    ],
    [
      'what it has deleted and an older put shows',
      stored,
      [put(1, 'a', { bagId: B })],
      {},
      { bags: [B, A], given: A, deleted: gone },
    ],
    [
      'not what a later put was given',
      { bagId: A, replaces: [B] },
      [put(3, 'c', { bagId: B })],
      {},
      { bags: [A], given: A },
    ],
    [
      'not what a later put is being given',
      { replaces: [B] },
      [],
      { receiving: [{ put: put(3, 'c'), bagId: B }] },
      {},
    ],
    ['puts that it superseded', { supersedes: [i1] }, [put(1, 'a')], {}, { puts: [i1] }],
    ['none that is gone', { supersedes: [i1] }, [], {}, {}],
    [
      'what moved away and is not stored',
      { after: [{ id: i1 }] },
      [put(1, 'b')],
      {},
      { after: [{ id: i1 }] },
    ],
    ['when its bags were uploaded', { uploaded: gone }, [], {}, { uploaded: gone }],
    [
      'when its own upload was answered, by what is known last',
      { bagId: A, answeredAtMs: 7, ownUploads: [{ bagId: A, atMs: 1 }, ...gone] },
      [],
      {},
      { bags: [A], given: A, ownUploads: [...gone, { bagId: A, atMs: 7 }] },
    ],
    [
      'when its own bag was uploaded, by what is known last',
      { bagId: A, uploadedAtMs: 7, uploaded: [{ bagId: A, atMs: 1 }, ...gone] },
      [],
      {},
      { bags: [A], given: A, uploaded: [...gone, { bagId: A, atMs: 7 }] },
    ],
  ])('%s', (_, rest, others, beside, expected) => {
    const left = put(2, 'a', rest)
    const legacy = legacyOf(all(left, successor, ...others), left, successor, {
      ...known,
      ...beside,
    })
    expect(legacy).toEqual({ ...nothing, ...expected })
  })

  it.each<[string, Intent, object, boolean]>([
    ['nothing', put(9, 'a'), {}, false],
    ['a bag', put(9, 'a'), { bags: [A] }, true],
    ['a bag that it knows', put(9, 'a', { replaces: [A] }), { bags: [A] }, false],
    [
      'a bag that it had deleted',
      put(9, 'a', { replaces: [B], deleted: gone }),
      { bags: [B] },
      true,
    ],
    ['a put', put(9, 'a'), { puts: [i1] }, true],
    ['a time', put(9, 'a'), { uploaded: gone }, true],
    ['a bag whose upload it knew of before', put(9, 'a', { uploaded: gone }), { given: B }, true],
    ['another bag', put(9, 'a', { uploaded: gone }), { given: C }, false],
  ])('%s is new to its successor, or not', (_, intent, legacy, expected) => {
    expect(isNewTo(intent, { ...nothing, ...legacy })).toBe(expected)
  })
})
