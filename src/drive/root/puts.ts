import type { KeptAttributes } from '../../domain/attributes.ts'
import type { Clock } from '../../domain/clock.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import { NOTHING, type Base } from '../../intents/base.ts'
import { newPut } from '../../intents/builders.ts'
import type { DeleteIntent, PutIntent } from '../../intents/intent.ts'
import { covers, isUnsentDelete, withDeletes } from '../../intents/replacing.ts'
import type { Replaced } from '../../intents/claims.ts'
import { named, ofPut } from '../../intents/transitions.ts'
import type { Durability, Outbox } from '../../outbox/outbox.ts'
import type { Jobs } from '../../outbox/jobs.ts'
import type { Entries } from './entries.ts'
import { classifyName } from './save-steps.ts'
import type { DriveSettings } from '../settings.ts'

interface PutsDeps {
  readonly outbox: Outbox
  readonly jobs: Pick<Jobs, 'has'>
  readonly entries: Entries
  readonly clock: Clock
}

/** What a put has beside its name and what it takes the place of. */
export type NewContent = Pick<
  PutIntent,
  'description' | 'content' | 'isFolder' | 'changes' | 'restores' | 'special' | keyof KeptAttributes
> & {
  /** For what stays on this machine: a folder that nothing is in yet, a node. */
  readonly phase?: 'local'
}

type Phase = Pick<PutIntent, 'phase' | 'heldUntilMs' | 'sentAtMs'>

/** Every put under a name of the root is made here, so that none is left beside a delete of its name (intents/replacing.ts). */
export class Puts {
  readonly #deps: PutsDeps
  readonly #settings: Pick<DriveSettings, 'writeBack' | 'holdMs'>
  /** Deletes that became part of a put, as long as that may be taken back. */
  readonly #merged = new Map<IntentId, readonly DeleteIntent[]>()

  constructor(deps: PutsDeps, settings: Pick<DriveSettings, 'writeBack' | 'holdMs'>) {
    this.#deps = deps
    this.#settings = settings
  }

  /** Promises content under a name, in the place of `replaced`; a folder begins to collect changes. */
  async add(
    name: string,
    replaced: Base,
    what: NewContent,
    id: IntentId = this.#deps.outbox.nextId(),
  ): Promise<PutIntent> {
    const { outbox, clock } = this.#deps
    const phase = this.#phaseOf(name, what)
    // What stays on this machine would keep such a delete from the service.
    const deletes = phase.phase === 'local' ? [] : this.#unsentDeletes(name)
    const base = this.#withDeletes(replaced, deletes)
    const put = newPut({
      id,
      name,
      createdAtMs: clock.now(),
      ...this.#placing(id),
      replaces: base.replaces.filter((bagId) => !this.isShared(bagId)),
      supersedes: base.supersedes,
      ...(base.uploaded === undefined ? {} : { uploaded: base.uploaded }),
      ...(base.after === undefined ? {} : { after: base.after }),
      ...what,
      namesakes: this.namesakesOf(name),
      ...phase,
    })
    await outbox.add(put, this.durabilityOf(put))
    await this.#dropMerged(put)
    return put
  }

  /** Gives a put that was not sent yet another name, in the place of `replaced`. */
  async move(
    id: IntentId,
    name: string,
    replaced: Base,
    moved: (put: PutIntent, base: Replaced) => PutIntent,
    durability: Durability,
  ): Promise<PutIntent | undefined> {
    const put = this.#deps.outbox.put(id)
    const stays = put !== undefined && moved(put, NOTHING).phase === 'local'
    const base = this.#withDeletes(replaced, stays ? [] : this.#unsentDeletes(name))
    const at = { ...this.#placing(id), namesakes: this.namesakesOf(name) }
    const change = ofPut((latest) => named(moved(latest, base), at))
    const updated = await this.#deps.outbox.update(id, change, durability)
    if (updated?.kind !== 'put') return undefined
    await this.#dropMerged(updated)
    return updated
  }

  /** It gets its name now: what was changed since it got its id, or the name, came before. */
  #placing(id: IntentId): Pick<PutIntent, 'placed'> {
    const { outbox } = this.#deps
    return outbox.isLast(id) ? {} : { placed: outbox.nextId() }
  }

  #phaseOf(name: string, { phase, content }: NewContent): Phase {
    if (phase !== undefined) return { phase }
    return content.from === 'folder' ? { phase: 'held' } : this.phaseFor(name)
  }

  /** Phase of new content under this name, and how long it is held. */
  phaseFor(name: string): Phase {
    const now = this.#deps.clock.now()
    switch (classifyName(name)) {
      case 'junk':
        return { phase: 'local' }
      case 'step':
        return { phase: 'held', heldUntilMs: now + this.#settings.holdMs }
      case 'plain':
      case 'trash':
        return this.#settings.writeBack ? { phase: 'waiting' } : { phase: 'waiting', sentAtMs: now }
    }
  }

  durabilityOf({ phase }: Phase): Durability {
    return { durable: this.#settings.writeBack || phase !== 'waiting' }
  }

  /** True when another record of the listing is the same bag: deleting it would take that too. */
  isShared(bagId: BagId): boolean {
    return this.#deps.entries.tree().usesOf(bagId) > 1
  }

  /**
   * Bags that show under a name, to recognise ours when an answer is lost. One that a change of here takes away shows no
   * more and is none: what is stored now may be given its id.
   */
  namesakesOf(name: string): readonly BagId[] {
    const { entries, outbox } = this.#deps
    const listed = entries.recordsOfUpload({ name, isFolder: true }).map(({ bagId }) => bagId)
    const stored = outbox
      .named(name)
      .flatMap((intent) => (intent.kind === 'put' ? (intent.bagId ?? []) : []))
    return [...new Set([...listed, ...stored])].filter((bagId) => entries.shows(bagId))
  }

  #withDeletes(base: Base, deletes: readonly DeleteIntent[]): Replaced {
    return withDeletes(base, deletes, (bagIds) => this.#deps.entries.uploadsOf(bagIds))
  }

  #unsentDeletes(name: string): readonly DeleteIntent[] {
    const { outbox, jobs } = this.#deps
    return outbox
      .named(name)
      .filter(isUnsentDelete)
      .filter(({ id }) => !jobs.has(id))
  }

  async #dropMerged(put: PutIntent): Promise<void> {
    const { outbox } = this.#deps
    for (const id of this.#merged.keys()) {
      if (outbox.get(id)?.phase !== 'waiting') this.#merged.delete(id)
    }
    const merged = this.#unsentDeletes(put.name).filter((intent) => covers(put, intent))
    if (merged.length > 0) this.#merged.set(put.id, merged)
    for (const intent of merged) await outbox.remove(intent.id, intent)
  }

  /** Forgets a change that failed. What was deleted before it stays deleted: the deletes that became part of it are back. */
  async takeBack(id: IntentId): Promise<void> {
    const { outbox } = this.#deps
    const merged = this.#merged.get(id) ?? []
    this.#merged.delete(id)
    // A bag that other content was given since is none that was deleted.
    const claimed = new Set(outbox.get(id)?.replaces)
    for (const intent of merged) {
      const replaces = intent.replaces.filter((bagId) => claimed.has(bagId))
      if (replaces.length === 0) continue
      await outbox.add({ ...intent, replaces, id: outbox.nextId() }, { durable: true })
    }
    await outbox.remove(id)
  }
}
