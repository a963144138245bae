import type { Clock } from '../domain/clock.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import { withUploads, type DeleteIntent, type PutIntent } from '../domain/intent.ts'
import type { Durability, Outbox } from '../outbox/outbox.ts'
import type { Uploader } from '../outbox/uploader.ts'
import type { Entries } from './entries.ts'
import { classifyName } from './save-steps.ts'
import type { DriveSettings } from './settings.ts'
import type { Base } from './staged-file.ts'

interface PutsDeps {
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly entries: Entries
  readonly clock: Clock
}

/** What a put has beside its name and what it takes the place of. */
export type NewContent = Pick<
  PutIntent,
  'description' | 'mode' | 'mtimeMs' | 'content' | 'isFolder' | 'changes'
>

type Phase = Pick<PutIntent, 'phase' | 'heldUntilMs' | 'sentAtMs'>

/**
 * Every put under a name of the root is made here, because a put and a delete of one name belong together:
 * a delete that was not sent yet becomes part of the put, and goes when the new content is confirmed. A
 * delete that was left beside the put would take the old content away before.
 */
export class Puts {
  readonly #deps: PutsDeps
  readonly #settings: Pick<DriveSettings, 'writeBack' | 'holdMs'>

  constructor(deps: PutsDeps, settings: Pick<DriveSettings, 'writeBack' | 'holdMs'>) {
    this.#deps = deps
    this.#settings = settings
  }

  /** Promises content under a name, in the place of `replaced`; a folder goes on to collect changes. */
  async add(
    name: string,
    replaced: Base,
    what: NewContent,
    id: IntentId = this.#deps.outbox.nextId(),
  ): Promise<PutIntent> {
    const { outbox, entries, clock } = this.#deps
    const base = this.#withUnsentDeletes(name, replaced)
    const phase = what.content.from === 'folder' ? { phase: 'held' as const } : this.phaseFor(name)
    const put: PutIntent = {
      version: 1,
      kind: 'put',
      id,
      name,
      createdAtMs: clock.now(),
      replaces: base.replaces.filter((bagId) => !this.isShared(bagId)),
      supersedes: base.supersedes,
      uploaded: entries.uploadsOf(base.replaces),
      ...what,
      namesakes: this.namesakesOf(name),
      ...phase,
    }
    await outbox.add(put, this.durabilityOf(put))
    await this.#dropMerged(put)
    return put
  }

  /** Gives a put that was not sent yet another name, in the place of `replaced`. */
  async move(
    id: IntentId,
    name: string,
    replaced: Base,
    moved: (put: PutIntent, base: Base) => PutIntent,
    durability: Durability,
  ): Promise<PutIntent | undefined> {
    const base = this.#withUnsentDeletes(name, replaced)
    const uploaded = this.#deps.entries.uploadsOf(base.replaces)
    const updated = await this.#deps.outbox.update(
      id,
      (latest) => (latest.kind === 'put' ? withUploads(moved(latest, base), { uploaded }) : latest),
      durability,
    )
    if (updated?.kind !== 'put') return undefined
    await this.#dropMerged(updated)
    return updated
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

  /** Bags that are listed under a name, to recognise ours when an answer is lost. */
  namesakesOf(name: string): readonly BagId[] {
    return this.#deps.entries
      .recordsOfUpload({ name, isFolder: true })
      .map((record) => record.bagId)
  }

  #withUnsentDeletes(name: string, base: Base): Base {
    return this.#unsentDeletes(name).reduce<Base>(joined, base)
  }

  #unsentDeletes(name: string): readonly DeleteIntent[] {
    const { outbox, uploader } = this.#deps
    return outbox
      .named(name)
      .filter(
        (intent): intent is DeleteIntent =>
          intent.kind === 'delete' &&
          (intent.phase === 'waiting' || intent.phase === 'held') &&
          !uploader.isRunning(intent.id),
      )
  }

  async #dropMerged(put: PutIntent): Promise<void> {
    for (const intent of this.#unsentDeletes(put.name)) {
      const isMerged =
        intent.replaces.every((bagId) => put.replaces.includes(bagId)) &&
        intent.supersedes.every((id) => put.supersedes.includes(id))
      if (isMerged) await this.#deps.outbox.remove(intent.id, intent)
    }
  }
}

export function joined(a: Base, b: Base): Base {
  return {
    replaces: [...new Set([...a.replaces, ...b.replaces])],
    supersedes: [...new Set([...a.supersedes, ...b.supersedes])],
  }
}
