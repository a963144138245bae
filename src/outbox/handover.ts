import { DriveError } from '../domain/errors.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { BagTime, Intent, PutIntent } from '../intents/intent.ts'
import { claimsOfBefore, deletedBags, isAllOf, isStored, orderOf } from '../intents/rules.ts'
import { inheriting, withoutClaim, type Legacy } from '../intents/transitions.ts'
import { KeyedLock } from '../domain/keyed-lock.ts'
import type { UploaderDeps, UploaderSettings } from './ports.ts'

/** Keeps in order which intent is to delete a bag: hands what a superseded put leaves behind to its successor. */
export class Handover {
  readonly #deps: UploaderDeps
  readonly #settings: UploaderSettings
  /** By both intents of a handover: in a chain of three, the second must not go while the first hands on to it. */
  readonly #handing = new KeyedLock<IntentId>()
  /** Puts that are about to be given a bag, until that is written down. */
  readonly #receiving = new Set<{ readonly put: PutIntent; readonly bagId: BagId }>()

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
      const latest = outbox.put(put.id)
      if (latest === undefined) return
      // What was handed to it meanwhile goes along; the bag may be known to the caller only.
      await this.#inherit({ ...put, ...latest }, successor)
      this.#deps.onStep?.('handover.inherited')
      await outbox.remove(put.id)
    })
  }

  /**
   * Equal content can be given the id of a bag that other changes take away: they meant what was there before. None
   * of them means the bag any more while `write` writes down that the put has it, also where one has just handed it on.
   */
  async give<Result>(put: PutIntent, bagId: BagId, write: () => Promise<Result>): Promise<Result> {
    const receiving = { put, bagId }
    this.#receiving.add(receiving)
    try {
      await this.#dropClaims(put, bagId)
      return await write()
    } finally {
      this.#receiving.delete(receiving)
    }
  }

  async #dropClaims(put: PutIntent, given: BagId): Promise<void> {
    const { outbox, log } = this.#deps
    for (;;) {
      const [claim] = claimsOfBefore(outbox, put, given)
      if (claim === undefined) return
      log.debug(
        { intent: claim.id, bagId: given },
        'A bag is stored anew: an older change leaves it.',
      )
      await this.#handing.run(claim.id, () =>
        outbox.update(claim.id, (latest) => withoutClaim(latest, given), this.#settings),
      )
    }
  }

  /**
   * What `put` still has to delete, its own bag included, and the puts that it superseded itself (they
   * would come back without it). A finished successor has then something left to do.
   */
  async #inherit(put: PutIntent, successor: IntentId): Promise<void> {
    const { outbox } = this.#deps
    const own = put.bagId === undefined ? [] : [put.bagId]
    const left = put.replacedAreDeleted === true ? this.#stillToHide(put) : put.replaces
    const bags = [...left, ...own].filter((bagId) => !this.#isOfLater(bagId, put))
    const puts = put.supersedes.filter((id) => outbox.get(id) !== undefined)
    const known = outbox.get(successor)
    if (known === undefined) throw new DriveError('interrupted', 'The change was taken back.')
    const uploaded = (put.uploaded ?? []).filter((each) => isUnknown(each, known))
    const after = (put.after ?? []).filter((moved) => !isStored(outbox, moved))
    // Equal content can have been given the id of a bag that was deleted before.
    const deleted = (put.deleted ?? []).filter(({ bagId }) => bagId !== put.bagId)
    const given = put.bagId === undefined ? {} : { given: put.bagId }
    const legacy: Legacy = { bags, ...given, puts, deleted, uploaded, after }
    if (isKnown(legacy, known)) return
    const updated = await outbox.update(
      successor,
      (latest) => inheriting(latest, legacy),
      this.#settings,
    )
    if (updated === undefined) throw new DriveError('interrupted', 'The change was taken back.')
  }

  /** True for a bag that content of later has been given, which was stored again with the same id. */
  #isOfLater(bagId: BagId, put: PutIntent): boolean {
    const having = this.#deps.outbox
      .intents()
      .filter((other) => other.kind === 'put' && other.bagId === bagId)
    const receiving = [...this.#receiving].filter((each) => each.bagId === bagId)
    return [...having, ...receiving.map((each) => each.put)].some(
      (other) => orderOf(other) > orderOf(put),
    )
  }

  /**
   * Bags that `put` has deleted and only its successor will hide: from a listing, or an older put.
   */
  #stillToHide(put: PutIntent): readonly BagId[] {
    const { outbox, listing, clock } = this.#deps
    const puts = outbox.intents().filter((intent) => intent.kind === 'put')
    const isLate = clock.now() - (put.confirmedAtMs ?? 0) < this.#settings.listingLagMs
    const index = listing.current()?.index
    const areDeleted = deletedBags([put])
    return put.replaces.filter((bagId) => {
      if (!areDeleted.has(bagId)) return false
      const given = puts.filter((other) => other.bagId === bagId)
      if (given.some((other) => orderOf(other) >= orderOf(put))) return false
      return given.length > 0 || isLate || (index?.recordsOf(bagId).length ?? 0) > 0
    })
  }
}

/** True when a successor has nothing more to do for a legacy than it had, and knows nothing that is over. */
function isKnown({ bags, given, puts, uploaded, after }: Legacy, successor: Intent): boolean {
  const { replaces, deleted = [], uploaded: times = [] } = successor
  const isNothing = puts.length + uploaded.length + after.length === 0
  return (
    isNothing &&
    isAllOf(bags, replaces) &&
    !deleted.some(({ bagId }) => bags.includes(bagId)) &&
    !times.some(({ bagId }) => bagId === given)
  )
}

/** True when an intent does not know when this bag was uploaded. */
function isUnknown({ bagId }: BagTime, { uploaded = [] }: Intent): boolean {
  return uploaded.every((each) => each.bagId !== bagId)
}
