import type { IntentId } from '../domain/ids.ts'
import type { PutIntent } from '../intents/intent.ts'
import { lostUploadsOf } from '../intents/lost-uploads.ts'
import { hasLostUploads, isAnswered, orderOf, supersededBy } from '../intents/rules.ts'
import { withLostFound } from '../intents/claims.ts'
import { ofPut } from '../intents/transitions.ts'
import type { CarryOut } from './carry-out.ts'
import { findGiven } from './lost-answer.ts'
import type { Try, UploaderDeps, UploaderSettings } from './ports.ts'

interface TakeOverDeps {
  readonly uploader: UploaderDeps
  readonly settings: UploaderSettings
  readonly carryOut: Pick<CarryOut, 'handOver' | 'prove'>
  readonly isRunning: (id: IntentId) => boolean
  /** Puts whose upload may have arrived without an answer. */
  readonly mayHaveArrived: Set<IntentId>
  /** Told of each put that is gone, and of what has its content now. */
  readonly onHandedOver: (from: IntentId, to: IntentId) => void
}

/** Takes what an intent supersedes out of the outbox; what that still had to do is the intent's from then on. */
export class TakeOver {
  readonly #deps: TakeOverDeps

  constructor(deps: TakeOverDeps) {
    this.#deps = deps
  }

  /** What an intent supersedes and no try has in hand. */
  superseded(id: IntentId): readonly PutIntent[] {
    const { uploader, isRunning } = this.#deps
    return supersededBy(uploader.outbox, id).filter((put) => !isRunning(put.id))
  }

  /** Takes over what the service cannot have; what may have arrived is looked for by the intent's own try. */
  async absorb(id: IntentId): Promise<void> {
    const { mayHaveArrived } = this.#deps
    const next = (): PutIntent | undefined =>
      this.superseded(id).find(
        (put) => !mayHaveArrived.has(put.id) && !isAnswered(put) && !hasLostUploads(put),
      )
    for (let put = next(); put !== undefined; put = next()) await this.#handOver(put, id)
  }

  /**
   * Takes over all that an intent supersedes, and what those superseded before: the last knows best of an id. A bag that
   * a late DELETE may take needs no proof for that: its content was compared, and it is to be deleted in any case.
   */
  async run(id: IntentId, { signal }: Try): Promise<void> {
    const { uploader, settings, carryOut, mayHaveArrived } = this.#deps
    const next = (): PutIntent | undefined => this.#chainTo(id)[0]
    const own = uploader.outbox.put(id)
    if (own !== undefined) await this.#findLost(own, id, signal)
    for (let put = next(); put !== undefined; put = next()) {
      await this.#findLost(put, id, signal)
      if (isAnswered(put) && put.isAtRisk !== true) {
        const proven = await carryOut.prove(put, signal)
        if (proven === undefined) mayHaveArrived.add(put.id)
        continue
      }
      const arrived = mayHaveArrived.has(put.id)
        ? await findGiven(uploader, settings, put, signal, id)
        : undefined
      const given = arrived && { bagId: arrived.bagId, uploadedAtMs: arrived.atMs }
      await this.#handOver({ ...put, ...given }, id)
      mayHaveArrived.delete(put.id)
    }
  }

  /** Looks for what a put may have stored under other names, which goes with what it takes the place of. */
  async #findLost(put: PutIntent, successor: IntentId, signal: AbortSignal): Promise<void> {
    const { uploader, settings } = this.#deps
    for (const lost of lostUploadsOf(put)) {
      const found = await findGiven(uploader, settings, lost, signal, successor)
      const change = ofPut((latest) => withLostFound(latest, lost, found))
      await uploader.outbox.update(put.id, change, settings)
    }
  }

  async #handOver(put: PutIntent, successor: IntentId): Promise<void> {
    await this.#deps.carryOut.handOver(put, successor)
    this.#deps.onHandedOver(put.id, successor)
  }

  /** Those that it supersedes, the oldest first, each behind what that supersedes. */
  #chainTo(id: IntentId): readonly PutIntent[] {
    const inOrder = this.superseded(id).toSorted((one, other) =>
      orderOf(one) < orderOf(other) ? -1 : 1,
    )
    return inOrder.flatMap((put) => [...this.#chainTo(put.id), put])
  }
}
