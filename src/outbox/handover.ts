import { DriveError } from '../domain/errors.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { BagTime, PutIntent } from '../intents/intent.ts'
import { isAllOf } from '../intents/rules.ts'
import { inheriting } from '../intents/transitions.ts'
import { KeyedLock } from '../domain/keyed-lock.ts'
import type { UploaderDeps, UploaderSettings } from './ports.ts'

/** Hands what a superseded put leaves behind to its successor. */
export class Handover {
  readonly #deps: UploaderDeps
  readonly #settings: UploaderSettings
  /** By both intents of a handover: in a chain of three, the second must not go while the first hands on to it. */
  readonly #handing = new KeyedLock<IntentId>()

  constructor(deps: UploaderDeps, settings: UploaderSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  /**
   * Gives all that is left of a superseded put to its successor, and forgets the put. Rejects
   * `interrupted`, with the put kept, when the successor was taken back meanwhile.
   */
  async run(put: PutIntent, successor: IntentId): Promise<void> {
    const { outbox } = this.#deps
    await this.#handing.runAll([put.id, successor], async () => {
      const latest = outbox.get(put.id)
      if (latest?.kind !== 'put') return
      // What was handed to it meanwhile goes along; the bag may be known to the caller only.
      await this.#inherit({ ...put, ...latest }, successor)
      this.#deps.onStep?.('handover.inherited')
      await outbox.remove(put.id)
    })
  }

  /**
   * What `put` still has to delete, its own bag included, and the puts that it superseded itself (they
   * would come back without it). A finished successor has then something left to do.
   */
  async #inherit(put: PutIntent, successor: IntentId): Promise<void> {
    const { outbox } = this.#deps
    const own = put.bagId === undefined ? [] : [put.bagId]
    const gone = put.replacedAreDeleted === true ? this.#stillToHide(put) : []
    const bags = [...(put.replacedAreDeleted === true ? gone : put.replaces), ...own]
    const puts = put.supersedes.filter((id) => outbox.get(id) !== undefined)
    const known = outbox.get(successor)
    if (known === undefined) throw new DriveError('interrupted', 'The change was taken back.')
    if (isAllOf(bags, known.replaces) && puts.length === 0) return
    // Equal content can have been given the id of a bag that was deleted before.
    const deleted = [...(put.deleted ?? []), ...this.#asDeleted(put, gone)].filter(
      ({ bagId }) => bagId !== put.bagId,
    )
    const updated = await outbox.update(
      successor,
      (latest) =>
        inheriting(latest, {
          bags,
          puts,
          deleted,
          uploaded: put.uploaded ?? [],
          after: put.after ?? [],
        }),
      this.#settings,
    )
    if (updated === undefined) throw new DriveError('interrupted', 'The change was taken back.')
  }

  /** Bags that `put` has deleted and nobody but its successor will hide: from a listing, or an older put. */
  #stillToHide(put: PutIntent): readonly BagId[] {
    const { outbox, listing, clock } = this.#deps
    const puts = outbox.intents().filter((intent) => intent.kind === 'put')
    const isLate = clock.now() - (put.confirmedAtMs ?? 0) < this.#settings.listingLagMs
    const index = listing.current()?.index
    return put.replaces.filter((bagId) => {
      const given = puts.filter((other) => other.bagId === bagId)
      if (given.some(({ id }) => id >= put.id)) return false
      return given.length > 0 || isLate || (index?.recordsOf(bagId).length ?? 0) > 0
    })
  }

  #asDeleted({ confirmedAtMs, deleted }: PutIntent, bags: readonly BagId[]): readonly BagTime[] {
    const atMs = confirmedAtMs ?? this.#deps.clock.now()
    const isNew = (bagId: BagId): boolean => deleted?.some((each) => each.bagId === bagId) !== true
    return bags.filter(isNew).map((bagId) => ({ bagId, atMs }))
  }
}
