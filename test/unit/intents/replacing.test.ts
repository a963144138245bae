import fc from 'fast-check'
import { expect, it } from 'vitest'
import { toBagId, type BagId, type IntentId } from '../../../src/domain/ids.ts'
import { NOTHING, joined, type Base } from '../../../src/intents/base.ts'
import { newDelete, newPut } from '../../../src/intents/builders.ts'
import { IntentIndex } from '../../../src/intents/intent-index.ts'
import type { Intent, PutIntent } from '../../../src/intents/intent.ts'
import { isNewTo, legacyOf } from '../../../src/intents/legacy.ts'
import { covers, isUnsentDelete, withDeletes } from '../../../src/intents/replacing.ts'
import {
  bagsToDelete,
  blockersOf,
  isDone,
  isForUser,
  isNeeded,
  isSuperseded,
  isToSend,
  supersededBy,
} from '../../../src/intents/rules.ts'
import { inheriting } from '../../../src/intents/claims.ts'
import {
  confirmed,
  deleted,
  failed,
  publish,
  replacedDeleted,
  staged,
  withoutFailure,
} from '../../../src/intents/transitions.ts'
import { buildTree, indexListing } from '../../../src/namespace/tree.ts'
import { formatIntent, parseIntent } from '../../../src/outbox/intent-file.ts'
import { intentId, record } from '../namespace/builders.ts'

const NAMES = ['a', 'b', 'c'] as const
type Name = (typeof NAMES)[number]

const ANSWERS = ['stored', 'refused', 'lost'] as const
type Answer = (typeof ANSWERS)[number]

/** What a person would miss: of each group, one bag has to be at the service. */
type Groups = readonly (readonly BagId[])[]

/** The service stores equal content once: under a name, each of these is one bag, also when it comes again. */
const CONTENTS = ['on', 'off'] as const
type Content = (typeof CONTENTS)[number]

/** An account, and the intents of one machine on it. Steps that cannot be made now do nothing. */
class Model {
  index = new IntentIndex()
  readonly service = new Map<BagId, Name>()
  readonly #wanted = new Map<Name, { readonly latest: IntentId | undefined; groups: Groups }>()
  /** What was removed, while no bag of it is deleted: the half of a replacement, maybe. */
  readonly #removed = new Map<Name, Groups>()
  #nextId = 1
  /** Puts whose upload arrived, and the answer was lost. */
  readonly #lost = new Set<IntentId>()

  store(name: Name): void {
    const bagId = this.#newBag(name, 'on')
    this.#wanted.set(name, { latest: undefined, groups: [[bagId]] })
  }

  write(name: Name, content: Content): void {
    const groups = this.#groupsOf(name)
    const id = this.#put(name, this.#baseOf(name), { from: 'staged', length: 1, sha256: content })
    this.#wanted.set(name, { latest: id, groups })
  }

  rename(name: Name, to: Name): void {
    const entry = this.#tree().get(name)
    if (entry === undefined || name === to) return
    const groups = [...(this.#wanted.get(name)?.groups ?? []), ...this.#groupsOf(to)]
    const content: PutIntent['content'] =
      entry.kind === 'bag' ? { from: 'bag', bagId: entry.record.bagId } : entry.intent.content
    const id = this.#put(to, joined(this.#baseOf(name), this.#baseOf(to)), content)
    this.#wanted.delete(name)
    this.#wanted.set(to, { latest: id, groups })
  }

  remove(name: Name, isHeld: boolean): void {
    if (this.#tree().get(name) === undefined) return
    const held = isHeld ? ({ phase: 'held', heldUntilMs: 1 } as const) : {}
    const base = this.#baseOf(name)
    this.index.set(newDelete({ id: this.#id(), name, createdAtMs: 0, ...base, ...held }))
    this.#removed.set(name, this.#wanted.get(name)?.groups ?? [])
    this.#wanted.delete(name)
  }

  /** What content under a name takes the place of. */
  #groupsOf(name: Name): Groups {
    const groups = this.#wanted.get(name)?.groups ?? this.#removed.get(name) ?? []
    this.#removed.delete(name)
    return groups
  }

  /** One try of an intent: takes over what it supersedes, is stored or refused, and deletes one bag. */
  send(pick: number, answer: Answer): void {
    const ready = this.index.intents().filter((intent) => this.#mayRun(intent))
    const intent = ready[pick % ready.length]
    if (intent === undefined) return
    for (const put of supersededBy(this.index, intent.id)) this.#handOver(put, intent.id)
    const latest = this.index.get(intent.id)
    if (latest?.kind === 'put' && latest.phase === 'waiting') this.#answer(latest, answer)
    else if (latest !== undefined) this.#deleteOne(latest, answer === 'refused')
  }

  /** Sends all, and lets all go that waits for a person, until nothing is left to do. */
  finish(): void {
    for (let round = 0; round < 200; round += 1) {
      for (const { id } of this.index.intents()) {
        const intent = this.index.get(id)
        if (intent !== undefined) this.index.set(publish(withoutFailure(intent)))
      }
      this.send(0, 'stored')
    }
  }

  /** Bags beside the one that a name means: hidden for now, or shown as another version. */
  leftBehind(): readonly BagId[] {
    const tree = this.#tree()
    return [...this.service].flatMap(([bagId, name]) => {
      const entry = tree.get(name)
      return entry?.kind === 'bag' && entry.record.bagId === bagId ? [] : [bagId]
    })
  }

  letGo(pick: number): void {
    const intents = this.index.intents()
    const intent = intents[pick % intents.length]
    if (intent !== undefined) this.index.set(publish(withoutFailure(intent)))
  }

  crash(): void {
    const kept = this.index.intents().map((intent) => formatIntent(intent))
    this.index = new IntentIndex()
    for (const text of kept) this.index.set(parseIntent(text))
  }

  /** Bags of which none is left, by name. */
  missing(): readonly Name[] {
    return NAMES.filter((name) => {
      const groups = this.#wanted.get(name)?.groups ?? []
      return groups.some((bags) => !bags.some((bagId) => this.service.has(bagId)))
    })
  }

  #put(name: Name, replaced: Base, content: PutIntent['content']): IntentId {
    const deletes = this.index.named(name).filter(isUnsentDelete)
    const base = withDeletes(replaced, deletes, () => [])
    const id = this.#id()
    const put = newPut({
      ...{ id, name, createdAtMs: 0, description: '', mode: 0, mtimeMs: 0 },
      ...base,
      content,
    })
    this.index.set(put)
    for (const each of deletes) if (covers(put, each)) this.index.delete(each.id)
    return id
  }

  #mayRun(intent: Intent): boolean {
    if (intent.phase === 'held' || intent.phase === 'local' || isForUser(intent)) return false
    if (isSuperseded(this.index, intent.id)) return false
    if (isDone(intent)) return supersededBy(this.index, intent.id).length > 0
    return isToSend(intent) && blockersOf(intent, this.index, () => false).length === 0
  }

  #handOver(put: PutIntent, successor: IntentId): void {
    const to = this.index.get(successor)
    if (to === undefined) return
    const given = put.bagId ?? (this.#lost.has(put.id) ? bagOf(put) : undefined)
    const arrived = given === undefined ? put : { ...put, bagId: given }
    const isListed = (bagId: BagId): boolean => this.service.has(bagId)
    const legacy = legacyOf(this.index, arrived, to, { isListed, mayLag: false, receiving: [] })
    if (isNewTo(to, legacy)) this.index.set(inheriting(to, legacy))
    this.index.delete(put.id)
  }

  #answer(put: PutIntent, answer: Answer): void {
    if (answer === 'refused') {
      this.#fail(put)
      return
    }
    const content = contentOf(put)
    const bagId = this.#newBag(put.name as Name, content)
    const sent = staged(put, 1, content)
    if (answer === 'lost') this.#lost.add(put.id)
    this.index.set(answer === 'lost' ? sent : confirmed(sent, bagId, 1))
    if (answer === 'lost') return
    const wanted = this.#wanted.get(put.name as Name)
    if (wanted?.latest === put.id) wanted.groups = [[bagId]]
  }

  /** As the service would be asked: bag by bag, each only when the rules allow it. */
  #deleteOne(intent: Intent, isRefused: boolean): void {
    const tree = this.#tree()
    // What is shown, or another put is to take the place of, stays; that is the other's business.
    const [bagId] = bagsToDelete(intent).filter(
      (each) => this.service.has(each) && tree.usesOf(each) === 0 && !isNeeded(this.index, each),
    )
    if (bagId === undefined) {
      const gone = intent.replaces
        .filter((each) => !this.service.has(each))
        .map((each) => ({ bagId: each, atMs: 1 }))
      this.index.set(
        intent.kind === 'put' ? replacedDeleted(intent, 1, gone) : deleted(intent, 1, gone),
      )
      return
    }
    if (isRefused) this.#fail(intent)
    else this.service.delete(bagId)
    if (intent.kind === 'delete') this.#removed.delete(intent.name as Name)
  }

  #fail(intent: Intent): void {
    const failure = {
      code: 'rejected',
      message: 'no',
      atMs: 0,
      tries: 1,
      waitsForUser: true,
    } as const
    this.index.set(failed(intent, failure, { mayHaveArrived: false }))
  }

  #baseOf(name: Name): Base {
    const entry = this.#tree().get(name)
    if (entry === undefined) return NOTHING
    return entry.kind === 'bag'
      ? { replaces: [entry.record.bagId], supersedes: [] }
      : { replaces: [], supersedes: [entry.intent.id] }
  }

  #tree() {
    const records = Array.from(this.service, ([bagId, name]) => record(bagId, name))
    return buildTree(indexListing(records), this.index.intents())
  }

  #newBag(name: Name, content: Content): BagId {
    const bagId = bagIdOf(name, content)
    this.service.set(bagId, name)
    return bagId
  }

  #id(): IntentId {
    return intentIdOf(this.#nextId++)
  }
}

function bagIdOf(name: Name, content: Content): BagId {
  const number = NAMES.indexOf(name) * CONTENTS.length + CONTENTS.indexOf(content)
  return toBagId(String(number).padStart(64, '0'))
}

/** What a put sends; a rename sends what the bag holds. */
function contentOf({ content }: PutIntent): Content {
  if (content.from === 'staged') return content.sha256 as Content
  const number = content.from === 'bag' ? Number(content.bagId) : 0
  return CONTENTS[number % CONTENTS.length] ?? 'on'
}

function bagOf(put: PutIntent): BagId {
  return bagIdOf(put.name as Name, contentOf(put))
}

/** As they are in files: 17 digits. */
function intentIdOf(number: number): IntentId {
  return intentId(number).slice(1).padStart(17, '0') as IntentId
}

const name = fc.constantFrom(...NAMES)
const pick = fc.nat(9)
const content = fc.constantFrom(...CONTENTS)
const step = fc.oneof(
  fc.record({ name, content }).map((each) => (model: Model) => {
    model.write(each.name, each.content)
  }),
  fc.record({ name, to: name }).map((each) => (model: Model) => {
    model.rename(each.name, each.to)
  }),
  fc.record({ name, isHeld: fc.boolean() }).map((each) => (model: Model) => {
    model.remove(each.name, each.isHeld)
  }),
  fc.record({ pick, answer: fc.constantFrom(...ANSWERS) }).map((each) => (model: Model) => {
    model.send(each.pick, each.answer)
  }),
  pick.map((each) => (model: Model) => {
    model.send(each, 'stored')
  }),
  pick.map((each) => (model: Model) => {
    model.letGo(each)
  }),
  fc.constant((model: Model) => {
    model.crash()
  }),
)

it('leaves no bag behind for ever, also when bag ids come back', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const model = new Model()
      for (const each of NAMES) model.store(each)
      for (const each of steps) each(model)
      model.finish()
      expect(model.leftBehind()).toEqual([])
    }),
    { numRuns: 500 },
  )
})

it('deletes nothing while the put that replaces it is not confirmed', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const model = new Model()
      for (const each of NAMES) model.store(each)
      for (const each of steps) {
        each(model)
        expect(model.missing()).toEqual([])
      }
    }),
    { numRuns: 2_000 },
  )
})
