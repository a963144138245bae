import { driveCloses } from '../domain/errors.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { isSuperseded, isToSend } from '../intents/rules.ts'
import type { Job } from './jobs.ts'
import type { UploaderDeps } from './ports.ts'

interface AttemptsDeps extends Pick<UploaderDeps, 'outbox' | 'jobs'> {
  /** Begins a try, or answers the one that is under way. */
  readonly begin: (id: IntentId) => Job
  readonly blockersOf: (intent: Intent) => readonly IntentId[]
  /** Resolves when a try of an intent may begin; undefined where that is so now. */
  readonly keptBackOf: (id: IntentId) => Promise<void> | undefined
  /** True when nothing is left to do of a change. */
  readonly isOver: (intent: Intent) => boolean
}

/** Tries that a caller waits for: now, whatever the time of the next one in the background is. */
export class Attempts {
  readonly #deps: AttemptsDeps
  /**
   * The calls that wait for the turn of an intent. When the intent gives way to another before
   * that, the call waits for the other.
   */
  readonly #turns = new Set<{ id: IntentId }>()
  #isClosed = false

  constructor(deps: AttemptsDeps) {
    this.#deps = deps
  }

  /**
   * One try now, of what blocks the intent first. Resolves when the service has the change; rejects
   * with the reason when this try failed (later ones go on in the background). Of an intent that
   * was superseded before it was sent, its successor is tried.
   */
  async attempt(id: IntentId): Promise<void> {
    // At once, see below, where nothing keeps it back.
    if (this.#deps.keptBackOf(id) !== undefined) await this.#letGo(id)
    this.#refuseClosed()
    const { outbox, jobs, begin, blockersOf } = this.#deps
    const running = jobs.get(id)
    if (running !== undefined) {
      await running.confirmed
      return
    }
    const intent = outbox.get(id)
    if (intent?.phase === 'confirmed') return
    // The successor may have what is no more in the outbox, and not be sent.
    const successor = outbox.successorOf(id)
    if (successor !== undefined) {
      if (isToSend(successor)) await this.attempt(successor.id)
      return
    }
    if (intent === undefined) return
    const isFree = blockersOf(intent).length === 0
    // At once when nothing blocks it: a drain that begins now must find this try under way.
    const next = isFree ? id : await this.#afterBlockers(intent)
    if (next !== id || outbox.successorOf(id) !== undefined) await this.attempt(next)
    else await begin(id).confirmed
  }

  /**
   * One try now of what the service has taken and something is left to do of: what it takes the place of is deleted.
   * Resolves however that went; rejects only when what blocks it failed.
   */
  async attemptRest(id: IntentId): Promise<void> {
    const { outbox, begin, isOver } = this.#deps
    await this.finished(id)
    this.#refuseClosed()
    const intent = outbox.get(id)
    if (intent?.phase !== 'confirmed' || isOver(intent)) return
    await this.#afterBlockers(intent)
    await this.#letGo(id)
    if (isSuperseded(outbox, id)) return
    begin(id)
    await this.finished(id)
  }

  /**
   * Resolves when nothing of an intent is under way any more, however it went. Rejects `interrupted` when that is so
   * because the drive is being closed.
   */
  async finished(id: IntentId): Promise<void> {
    const { outbox, jobs } = this.#deps
    const job = jobs.get(id)
    if (job === undefined) return
    const endHurry = outbox.sync.hurry()
    try {
      await job.done
    } finally {
      endHurry()
    }
    this.#refuseClosed()
  }

  async #letGo(id: IntentId): Promise<void> {
    const { keptBackOf } = this.#deps
    for (let end = keptBackOf(id); end !== undefined; end = keptBackOf(id)) await end
  }

  /** One intent has given way to another. */
  handedOver(from: IntentId, to: IntentId): void {
    for (const turn of this.#turns) if (turn.id === from) turn.id = to
  }

  /** No other is begun. */
  close(): void {
    this.#isClosed = true
  }

  #refuseClosed(): void {
    if (this.#isClosed) throw driveCloses()
  }

  /** Tries what blocks an intent; answers the intent that has its content by then. */
  async #afterBlockers(intent: Intent): Promise<IntentId> {
    const turn = { id: intent.id }
    this.#turns.add(turn)
    try {
      for (const blocker of this.#deps.blockersOf(intent)) {
        await this.attempt(blocker)
        await this.finished(blocker)
      }
      return turn.id
    } finally {
      this.#turns.delete(turn)
    }
  }
}
