import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagTime, DeleteIntent, Intent, PutIntent } from '../intents/intent.ts'
import { isAllOf, isLostOnItsWay, isSuperseded, mayDelete } from '../intents/rules.ts'
import { movesStored, withDeleted } from '../intents/claims.ts'
import { deleted, replacedDeleted } from '../intents/transitions.ts'
import type { BagDeletes } from './bag-deletes.ts'
import type { Handover } from './handover.ts'
import type { UploaderDeps, UploaderSettings } from './ports.ts'
import { updatePut } from './update-put.ts'

interface FinishParts {
  readonly bags: Pick<BagDeletes, 'delete'>
  readonly handover: Pick<Handover, 'run'>
}

/** The last step of a change: the old bags go, once what takes their place is confirmed. */
export class Finish {
  readonly #deps: UploaderDeps
  readonly #settings: UploaderSettings
  readonly #parts: FinishParts

  constructor(deps: UploaderDeps, settings: UploaderSettings, parts: FinishParts) {
    this.#deps = deps
    this.#settings = settings
    this.#parts = parts
  }

  /** Deletes what a confirmed put takes the place of; a folder that changed meanwhile begins its next round. */
  async put(put: PutIntent, signal: AbortSignal): Promise<void> {
    const { outbox, clock } = this.#deps
    for (;;) {
      const successor = outbox.successorOf(put.id)
      if (successor !== undefined) {
        await this.#parts.handover.run(put, successor.id)
        return
      }
      const current = outbox.put(put.id)
      if (current === undefined || !isStillLeft(current, put)) return
      const isFree = mayDelete(current, outbox)
      const { gone, error } = await this.#triedToDelete(current, { isFree, signal })
      // However that went: a folder that is renamed, or changed, meanwhile must be of the bag that is stored now.
      if (await this.#folderGoesOn({ ...current, deleted: gone })) {
        if (error !== undefined) this.#noteLater(current, error)
        return
      }
      if (error !== undefined) throw error
      this.#refuseLost(current)
      // Its bags go once what moved away from it is stored.
      if (!isFree) return
      // More may have been handed over meanwhile, and what a new successor is to delete was left to it.
      const isAll = (latest: PutIntent): boolean =>
        isStillLeft(latest, put) &&
        isAllOf(latest.replaces, current.replaces) &&
        !isSuperseded(outbox, put.id)
      await updatePut(this.#deps, this.#settings, put, (latest) =>
        isAll(latest) ? replacedDeleted(latest, clock.now(), gone) : withDeleted(latest, gone),
      )
    }
  }

  /** True when a folder changed since it was packed: its intent begins another round. */
  async #folderGoesOn(put: PutIntent): Promise<boolean> {
    const { bagId } = put
    if (put.isFolder !== true || put.changes === undefined || bagId === undefined) return false
    const { folders, outbox } = this.#deps
    const goesOn = await outbox.withReserve(() => folders.committed(put, bagId))
    this.#deps.onStep?.('folder.led')
    return goesOn
  }

  /** What is deleted of what a put takes the place of, and what stands against the rest. */
  async #triedToDelete(
    put: PutIntent,
    { isFree, signal }: { readonly isFree: boolean; readonly signal: AbortSignal },
  ): Promise<{ readonly gone: readonly BagTime[]; readonly error?: Error }> {
    const { deleted: gone = [] } = put
    if (!isFree) return { gone }
    try {
      return { gone: await this.#deleteFor(put, signal) }
    } catch (error) {
      if (signal.aborted || !isDriveError(error)) throw error
      return { gone, error }
    }
  }

  #noteLater({ id, name }: PutIntent, error: Error): void {
    const facts = { intent: id, name, error: String(error) }
    this.#deps.log.warn(
      facts,
      'An old version of a folder is not deleted: it goes with the next one.',
    )
  }

  async #deleteFor(put: PutIntent, signal: AbortSignal): Promise<readonly BagTime[]> {
    const { after = [] } = put
    if (after.length > 0) {
      await updatePut(this.#deps, this.#settings, put, (latest) => movesStored(latest, after))
    }
    return this.#parts.bags.delete(put, signal)
  }

  /** Deletes what a delete is for, unless what moved away from there is not stored yet. */
  async delete(intent: DeleteIntent, signal: AbortSignal): Promise<void> {
    const { outbox, clock } = this.#deps
    let current: Intent | undefined = intent
    while (current?.phase === 'waiting' && mayDelete(current, outbox)) {
      const { replaces } = current
      const gone = await this.#parts.bags.delete(current, signal)
      current = await outbox.update(
        intent.id,
        (latest) =>
          latest.kind === 'delete' && isAllOf(latest.replaces, replaces)
            ? deleted(latest, clock.now(), gone)
            : latest,
        this.#settings,
      )
    }
    if (current?.phase === 'waiting') this.#refuseLost(current)
  }

  /** What moved away may be nowhere but here, and in what the outbox could not read. */
  #refuseLost(intent: Intent): void {
    if (!isLostOnItsWay(intent, this.#deps.outbox)) return
    throw new DriveError(
      'not-found',
      `What was moved away from ${intent.name} is in a damaged change, so the old content stays.`,
      { hint: 'bagfs outbox list tells where that is; bagfs outbox discard forgets this change.' },
    )
  }
}

/**
 * True while a put has bags of before to delete for the bag that it was given. A folder's put may have begun its next round
 * meanwhile, which takes the place of that bag, and is not stored yet.
 */
function isStillLeft(
  { phase, bagId, replacedAreDeleted }: PutIntent,
  confirmed: PutIntent,
): boolean {
  return phase === 'confirmed' && bagId === confirmed.bagId && replacedAreDeleted !== true
}
