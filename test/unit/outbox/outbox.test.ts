import fc from 'fast-check'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock, type Clock } from '../../../src/domain/clock.ts'
import { toBagId, type IntentId } from '../../../src/domain/ids.ts'
import type { Intent, PutIntent } from '../../../src/intents/intent.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { formatIntent, parseIntent } from '../../../src/outbox/intent-file.ts'
import { orderOf } from '../../../src/intents/rules.ts'
import { IntentIndex } from '../../../src/intents/intent-index.ts'
import { Outbox } from '../../../src/outbox/outbox.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-outbox-'))
})
afterEach(() => {
  rmSync(dir, { recursive: true, force: true })
})

const open = (clock: Clock = systemClock): Promise<Outbox> =>
  Outbox.open({ clock, log: silentLogger }, { dir })
const at = (ms: number): Clock => ({ ...systemClock, now: () => ms })
const toId = (number: number): IntentId => String(number).padStart(17, '0') as IntentId
const inDir = (...path: readonly string[]): string => join(dir, 'v2', ...path)

function put(id: IntentId, more: Partial<PutIntent> = {}): PutIntent {
  return {
    version: 1,
    kind: 'put',
    id,
    name: 'name',
    phase: 'waiting',
    createdAtMs: 1,
    replaces: [],
    supersedes: [],
    description: '',
    mode: 0o644,
    mtimeMs: 1,
    content: { from: 'staged', length: 1, sha256: 'ab' },
    ...more,
  }
}

const id = fc.integer({ min: 1, max: 40 }).map(toId)
const bagId = fc.string({ minLength: 1 }).map(toBagId)
const common = {
  version: fc.constant(1 as const),
  id,
  name: fc.string({ minLength: 1, unit: 'binary' }),
  phase: fc.constantFrom(
    'held' as const,
    'local' as const,
    'waiting' as const,
    'confirmed' as const,
  ),
  createdAtMs: fc.nat(),
  replaces: fc.array(bagId, { maxLength: 3 }),
  supersedes: fc.array(id, { maxLength: 3 }),
}
const uploaded = fc.array(fc.record({ bagId, atMs: fc.nat() }))

const anyIntent: fc.Arbitrary<Intent> = fc.oneof(
  fc.record(
    {
      ...common,
      kind: fc.constant('put' as const),
      description: fc.string({ unit: 'binary' }),
      mode: fc.nat(0o7777),
      mtimeMs: fc.double({ noNaN: true, noDefaultInfinity: true }).map((number) => number + 0),
      content: fc.oneof(
        fc.record({ from: fc.constant('staged' as const), length: fc.nat(), sha256: fc.string() }),
        fc.record({ from: fc.constant('bag' as const), bagId }),
      ),
      uploaded,
      sentAtMs: fc.nat(),
      placed: id,
      namesakes: fc.array(bagId),
      bagId,
      replacedAreDeleted: fc.boolean(),
    },
    {
      requiredKeys: [
        ...(Object.keys(common) as (keyof typeof common)[]),
        'kind',
        'description',
        'mode',
        'mtimeMs',
        'content',
      ],
    },
  ),
  fc.record(
    { ...common, uploaded, kind: fc.constant('delete' as const) },
    { requiredKeys: [...(Object.keys(common) as (keyof typeof common)[]), 'kind'] },
  ),
)

describe('the file of an intent', () => {
  it('says all of any intent, and is read back as it was', () => {
    fc.assert(
      fc.property(anyIntent, (intent) => {
        expect(parseIntent(formatIntent(intent))).toEqual(JSON.parse(JSON.stringify(intent)))
      }),
    )
  })

  it('is refused as corrupt when it is cut anywhere', () => {
    const text = formatIntent(put(toId(1)))
    for (let length = 0; length < text.length - 2; length += 1) {
      expect(() => parseIntent(text.slice(0, length))).toThrow(
        expect.objectContaining({ code: 'corrupt' }),
      )
    }
  })
})

describe('the index of intents', () => {
  it('forgets an intent only as what the decision was made on', async () => {
    const outbox = await open()
    const first = put(toId(1))
    await outbox.add(first, { durable: false })
    const bag = toBagId('b'.repeat(64))
    // Both are under way at once: what is handed over meanwhile must not be forgotten.
    const handover = outbox.update(toId(1), (latest) => ({ ...latest, replaces: [bag] }), {
      durable: false,
    })
    await outbox.remove(toId(1), first)
    await handover
    expect(outbox.get(toId(1))?.replaces).toEqual([bag])
    await outbox.remove(toId(1), outbox.get(toId(1)))
    expect(outbox.intents()).toEqual([])
  })

  it('agrees with a plain list, whatever is done to it', () => {
    const change = fc.oneof(fc.record({ set: anyIntent }), fc.record({ remove: id }))
    fc.assert(
      fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
        const index = new IntentIndex()
        const plain = new Map<IntentId, Intent>()
        for (const each of changes) {
          if ('set' in each) {
            // One intent takes the place of another: the drive never gives it two successors.
            const taken = new Set([...plain.values()].flatMap(({ supersedes }) => supersedes))
            for (const old of plain.get(each.set.id)?.supersedes ?? []) taken.delete(old)
            const supersedes = each.set.supersedes.filter((old) => !taken.has(old))
            const intent = { ...each.set, supersedes }
            index.set(intent)
            plain.set(intent.id, intent)
          } else {
            index.delete(each.remove)
            plain.delete(each.remove)
          }
          const sorted = [...plain.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
          expect(index.intents()).toEqual(sorted)
          for (const { name } of sorted) {
            expect(new Set(index.named(name))).toEqual(
              new Set(sorted.filter((other) => other.name === name)),
            )
          }
          for (let number = 1; number <= 40; number += 1) {
            const old = toId(number)
            expect(index.get(old)).toBe(plain.get(old))
            expect(index.successorOf(old)).toBe(
              sorted.find(({ supersedes }) => supersedes.includes(old)),
            )
            expect(index.isLast(old)).toBe(
              sorted.every((other) => other.id <= old && orderOf(other) <= old),
            )
          }
        }
      }),
    )
  })
})

it('holds no two intents that take the place of each other, whatever a process left', async () => {
  const [one, two] = [toId(1), toId(2)]
  const circle = [put(one, { supersedes: [one, two] }), put(two, { supersedes: [one] })]
  const supersedes = (outbox: Outbox) => outbox.intents().map((each) => each.supersedes)
  const outbox = await open()
  for (const each of circle) await outbox.add(each, { durable: false })
  expect(supersedes(outbox)).toEqual([[two], []])
  await outbox.update(two, (latest) => ({ ...latest, supersedes: [one, two] }), { durable: false })
  expect(supersedes(outbox)).toEqual([[two], []])
  await outbox.close()
  for (const each of circle) writeFileSync(inDir(each.id, 'intent.json'), formatIntent(each))
  const next = await open()
  expect(supersedes(next)).toEqual([[two], []])
  await next.close()
})

describe('the outbox on disk', () => {
  it('has every intent and its content after the process ended, and no draft', async () => {
    const first = await open()
    const { id, path } = first.createDraft()
    writeFileSync(path, 'content')
    const draft = first.createDraft()
    writeFileSync(draft.path, 'nobody was promised this')
    await first.add(put(id), { durable: true })
    await first.update(id, (intent) => ({ ...intent, name: 'renamed' }), { durable: false })

    const second = await open()
    expect(second.intents()).toEqual([put(id, { name: 'renamed' })])
    expect(readFileSync(second.contentPath(id), 'utf8')).toBe('content')
    expect(existsSync(inDir(draft.id))).toBe(false)
  })

  it('keeps whatever was acknowledged, through any changes and restarts', async () => {
    const change = fc.oneof(
      fc.record({ what: fc.constant('add' as const), id, name: fc.string({ minLength: 1 }) }),
      fc.record({ what: fc.constant('update' as const), id, name: fc.string({ minLength: 1 }) }),
      fc.record({ what: fc.constant('remove' as const), id }),
      fc.record({ what: fc.constant('restart' as const) }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 25 }), async (changes) => {
        rmSync(dir, { recursive: true, force: true })
        let outbox = await open()
        const plain = new Map<IntentId, string>()
        for (const each of changes) {
          if (each.what === 'restart') outbox = await open()
          else if (each.what === 'remove') {
            await outbox.remove(each.id)
            plain.delete(each.id)
          } else if (each.what === 'update') {
            const { name } = each
            await outbox.update(each.id, (intent) => ({ ...intent, name }), { durable: false })
            if (plain.has(each.id)) plain.set(each.id, name)
          } else {
            await outbox.add(put(each.id, { name: each.name }), { durable: false })
            plain.set(each.id, each.name)
          }
        }
        const names = (await open())
          .intents()
          .map((intent): [IntentId, string] => [intent.id, intent.name])
        expect(new Map(names)).toEqual(plain)
      }),
      { numRuns: 40 },
    )
  })

  it('forgets a delete that may have been half of a replacement', async () => {
    const first = await open()
    const removed = { version: 1, kind: 'delete', name: 'name', createdAtMs: 1 } as const
    const rest = { replaces: [toBagId('bag')], supersedes: [] }
    const half = { ...removed, ...rest, id: toId(1), phase: 'held', heldUntilMs: 1_001 } as const
    await first.add(half, { durable: true })
    await first.add({ ...removed, ...rest, id: toId(2), phase: 'waiting' }, { durable: true })
    expect((await open()).intents().map((intent) => intent.id)).toEqual([toId(2)])
    expect(readdirSync(inDir())).toEqual([toId(2)])
  })

  it('sets a damaged intent aside with its content, tells where, and goes on', async () => {
    const first = await open()
    const { id, path } = first.createDraft()
    writeFileSync(path, 'content')
    await first.add(put(id), { durable: true })
    await first.add(put(toId(7)), { durable: true })
    writeFileSync(inDir(id, 'intent.json'), '{"version":1,')

    const second = await open()
    expect(second.intents().map((intent) => intent.id)).toEqual([toId(7)])
    expect(second.damaged()).toEqual([inDir(`damaged-${id}`)])
    expect(readFileSync(inDir(`damaged-${id}`, 'content'), 'utf8')).toBe('content')
    expect((await open()).damaged()).toEqual([inDir(`damaged-${id}`)])
  })

  it('sets aside a second one of the same id, and an intent that is not in its own place', async () => {
    for (let round = 0; round < 2; round += 1) {
      mkdirSync(inDir(toId(7)), { recursive: true })
      writeFileSync(inDir(toId(7), 'intent.json'), formatIntent(put(toId(8))))
      expect((await open()).intents()).toEqual([])
    }
    expect(readdirSync(inDir()).sort()).toEqual([`damaged-${toId(7)}`, `damaged-${toId(7)}.1`])
  })

  it('does not go on without an intent that the disk refuses to read', async () => {
    mkdirSync(inDir(toId(7), 'intent.json'), { recursive: true })
    await expect(open()).rejects.toMatchObject({ code: 'local-io' })
    expect(readdirSync(inDir())).toEqual([toId(7)])
  })

  it('leaves files that are not its own alone', async () => {
    mkdirSync(inDir('notes'), { recursive: true })
    await open()
    expect(readdirSync(inDir())).toEqual(['notes'])
  })

  it('gives ids that grow, whatever the clock does, also across restarts', async () => {
    const first = await open(at(5_000))
    const ids = [first.nextId(), first.nextId(), first.createDraft().id]
    await first.add(put(ids[2] ?? toId(1)), { durable: false })
    const second = await open(at(1))
    ids.push(second.nextId(), second.nextId())
    expect(ids).toEqual([...new Set(ids)].sort())
  })

  it('an update of what was removed meanwhile brings nothing back', async () => {
    const outbox = await open()
    await outbox.add(put(toId(7)), { durable: false })
    const removed = outbox.remove(toId(7))
    const updated = outbox.update(toId(7), (intent) => intent, { durable: false })
    await removed
    expect(await updated).toBeUndefined()
    expect(readdirSync(inDir())).toEqual([])
  })

  it('changes of one intent at the same time all count', async () => {
    const outbox = await open()
    await outbox.add(put(toId(7), { name: '0' }), { durable: false })
    const grow = (intent: Intent): Intent => ({ ...intent, name: `${intent.name}+` })
    await Promise.all(
      Array.from({ length: 20 }, () => outbox.update(toId(7), grow, { durable: false })),
    )
    expect((await open()).get(toId(7))?.name).toBe(`0${'+'.repeat(20)}`)
  })
})
