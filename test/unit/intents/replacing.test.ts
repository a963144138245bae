import fc from 'fast-check'
import { expect, it } from 'vitest'
import { toBagId, type BagId, type IntentId } from '../../../src/domain/ids.ts'
import { NOTHING, joined, type Base } from '../../../src/intents/base.ts'
import { newDelete, newPut } from '../../../src/intents/builders.ts'
import { IntentIndex } from '../../../src/intents/intent-index.ts'
import type { Intent, PutIntent } from '../../../src/intents/intent.ts'
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
import {
  confirmed,
  deleted,
  failed,
  inheriting,
  publish,
  replacedDeleted,
  withoutFailure,
} from '../../../src/intents/transitions.ts'
import { buildTree, indexListing } from '../../../src/namespace/tree.ts'
import { formatIntent, parseIntent } from '../../../src/outbox/intent-file.ts'
import { intentId, record } from '../namespace/builders.ts'

const NAMES = ['a', 'b', 'c'] as const
type Name = (typeof NAMES)[number]

/** What a person would miss: of each group, one bag has to be at the service. */
type Groups = readonly (readonly BagId[])[]

/** An account, and the intents of one machine on it. Steps that cannot be made now do nothing. */
class Model {
  index = new IntentIndex()
  readonly service = new Map<BagId, Name>()
  readonly #wanted = new Map<Name, { readonly latest: IntentId | undefined; groups: Groups }>()
  /** What was removed, while no bag of it is deleted: the half of a replacement, maybe. */
  readonly #removed = new Map<Name, Groups>()
  #nextId = 1
  #nextBag = 1

  store(name: Name): void {
    const bagId = this.#newBag(name)
    this.#wanted.set(name, { latest: undefined, groups: [[bagId]] })
  }

  write(name: Name): void {
    const groups = this.#groupsOf(name)
    const id = this.#put(name, this.#baseOf(name), { from: 'staged', length: 1, sha256: '' })
    this.#wanted.set(name, { latest: id, groups })
  }

  rename(name: Name, to: Name): void {
    const entry = this.#tree().get(name)
    if (entry === undefined || name === to) return
    const groups = [...(this.#wanted.get(name)?.groups ?? []), ...this.#groupsOf(to)]
    const content: PutIntent['content'] =
      entry.kind === 'bag'
        ? { from: 'bag', bagId: entry.record.bagId }
        : { from: 'staged', length: 1, sha256: '' }
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
  send(pick: number, isRefused: boolean): void {
    const ready = this.index.intents().filter((intent) => this.#mayRun(intent))
    const intent = ready[pick % ready.length]
    if (intent === undefined) return
    for (const put of supersededBy(this.index, intent.id)) this.#handOver(put, intent.id)
    const latest = this.index.get(intent.id)
    if (latest?.kind === 'put' && latest.phase === 'waiting') this.#answer(latest, isRefused)
    else if (latest !== undefined) this.#deleteOne(latest, isRefused)
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
    const own = put.bagId === undefined ? [] : [put.bagId]
    const left = put.replacedAreDeleted === true ? [] : put.replaces
    const puts = put.supersedes.filter((id) => this.index.get(id) !== undefined)
    const bags = [...left, ...own]
    this.index.set(
      inheriting(to, { bags, puts, deleted: put.deleted ?? [], uploaded: [], after: [] }),
    )
    this.index.delete(put.id)
  }

  #answer(put: PutIntent, isRefused: boolean): void {
    if (isRefused) {
      this.#fail(put)
      return
    }
    const bagId = this.#newBag(put.name as Name)
    this.index.set(confirmed(put, bagId, 1))
    const wanted = this.#wanted.get(put.name as Name)
    if (wanted?.latest === put.id) wanted.groups = [[bagId]]
  }

  /** As the service would be asked: bag by bag, each only when the rules allow it. */
  #deleteOne(intent: Intent, isRefused: boolean): void {
    const due = bagsToDelete(intent).filter((bagId) => this.service.has(bagId))
    const [bagId] = due.filter((each) => !isNeeded(this.index, each))
    if (bagId === undefined) {
      const done = intent.kind === 'put' ? replacedDeleted(intent, 1) : deleted(intent, 1)
      if (due.length === 0) this.index.set(done)
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

  #newBag(name: Name): BagId {
    const bagId = toBagId(String(this.#nextBag++).padStart(64, '0'))
    this.service.set(bagId, name)
    return bagId
  }

  #id(): IntentId {
    return intentIdOf(this.#nextId++)
  }
}

/** As they are in files: 17 digits. */
function intentIdOf(number: number): IntentId {
  return intentId(number).slice(1).padStart(17, '0') as IntentId
}

const name = fc.constantFrom(...NAMES)
const pick = fc.nat(9)
const step = fc.oneof(
  fc.record({ name }).map((each) => (model: Model) => {
    model.write(each.name)
  }),
  fc.record({ name, to: name }).map((each) => (model: Model) => {
    model.rename(each.name, each.to)
  }),
  fc.record({ name, isHeld: fc.boolean() }).map((each) => (model: Model) => {
    model.remove(each.name, each.isHeld)
  }),
  fc.record({ pick, isRefused: fc.boolean() }).map((each) => (model: Model) => {
    model.send(each.pick, each.isRefused)
  }),
  pick.map((each) => (model: Model) => {
    model.send(each, false)
  }),
  pick.map((each) => (model: Model) => {
    model.letGo(each)
  }),
  fc.constant((model: Model) => {
    model.crash()
  }),
)

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
