import { DriveError } from '../domain/errors.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { PutIntent } from '../intents/intent.ts'
import { isNewTo, legacyOf, type KnownOfBags } from '../intents/legacy.ts'
import { claimsOfBefore } from '../intents/rules.ts'
import { inheriting, withoutClaim } from '../intents/claims.ts'
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
    const known = outbox.get(successor)
    if (known === undefined) throw new DriveError('interrupted', 'The change was taken back.')
    const legacy = legacyOf(outbox, put, known, this.#known(put))
    if (!isNewTo(known, legacy)) return
    const updated = await outbox.update(
      successor,
      (latest) => inheriting(latest, legacy),
      this.#settings,
    )
    if (updated === undefined) throw new DriveError('interrupted', 'The change was taken back.')
  }

  #known({ confirmedAtMs = 0 }: PutIntent): KnownOfBags {
    const { listing, clock } = this.#deps
    const index = listing.current()?.index
    return {
      isListed: (bagId) => (index?.recordsOf(bagId).length ?? 0) > 0,
      mayLag: clock.now() - confirmedAtMs < this.#settings.listingLagMs,
      receiving: [...this.#receiving],
    }
  }
}
