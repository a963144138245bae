import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { isDone, isForUser, isSuperseded, isToSend } from '../intents/rules.ts'
import type { UploaderDeps } from './ports.ts'

/** Files that are written while the drive is emptied must not keep it for ever. */
const ROUNDS = 3
const LOOK_AGAIN_MS = 200

interface DrainDeps extends Pick<UploaderDeps, 'outbox' | 'clock' | 'jobs'> {
  /** Begins what can be sent. */
  readonly startReady: () => void
  /** Lets a held change go. Never rejects. */
  readonly publish: (id: IntentId) => Promise<void>
  readonly blockersOf: (intent: Intent) => readonly IntentId[]
  /** True when nothing is left to do of a change. */
  readonly isOver: (intent: Intent) => boolean
}

/** Empties the outbox: each change is tried once, and what fails then waits for the end of it. */
export class Drain {
  readonly #deps: DrainDeps
  /** What failed since it began; undefined while nothing is emptied. */
  #failed: Set<IntentId> | undefined

  constructor(deps: DrainDeps) {
    this.#deps = deps
  }

  get isRunning(): boolean {
    return this.#failed !== undefined
  }

  /** True for what is not tried again before it ends. */
  hasFailed(id: IntentId): boolean {
    return this.#failed?.has(id) === true
  }

  noteFailed(id: IntentId): void {
    this.#failed?.add(id)
  }

  /** Resolves when nothing is under way any more: with what still waits, each with its failure. */
  async run(signal: AbortSignal): Promise<readonly Intent[]> {
    const { outbox } = this.#deps
    this.#failed = new Set()
    const endHurry = outbox.sync.hurry()
    try {
      // A folder that changed while it was sent is held again.
      for (let round = 0; round < ROUNDS; round += 1) {
        if (round > 0 && this.#held().length === 0) break
        await Promise.all(this.#held().map(({ id }) => this.#deps.publish(id)))
        await this.#sendAll(signal)
      }
    } finally {
      this.#failed = undefined
      endHurry()
    }
    return outbox.intents().filter((each) => isToSend(each) || each.phase === 'held')
  }

  async #sendAll(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.#hasWork()) {
      this.#deps.startReady()
      await this.#nextChange(signal)
    }
  }

  #held(): readonly Intent[] {
    return this.#deps.outbox.intents().filter(({ phase }) => phase === 'held')
  }

  /** True while it is worth the wait. */
  #hasWork(): boolean {
    const { outbox, jobs, isOver } = this.#deps
    if (jobs.size > 0) return true
    return outbox
      .intents()
      .some(
        (intent) =>
          (isToSend(intent) || (isDone(intent) && !isOver(intent))) &&
          !isForUser(intent) &&
          !isSuperseded(outbox, intent.id) &&
          !this.#isStuck(intent),
      )
  }

  /** True when it failed, or waits for what did, however many are in between. */
  #isStuck(intent: Intent, looked = new Set<IntentId>()): boolean {
    if (this.hasFailed(intent.id)) return true
    looked.add(intent.id)
    return this.#deps.blockersOf(intent).some((id) => {
      const blocker = looked.has(id) ? undefined : this.#deps.outbox.get(id)
      return blocker !== undefined && this.#isStuck(blocker, looked)
    })
  }

  async #nextChange(signal: AbortSignal): Promise<void> {
    const { clock, jobs } = this.#deps
    const timeout = new AbortController()
    const pause = clock
      .sleep(LOOK_AGAIN_MS, AbortSignal.any([signal, timeout.signal]))
      .catch(() => undefined)
    await Promise.race([jobs.size > 0 ? jobs.anyEnd() : pause, pause])
    timeout.abort()
  }
}
