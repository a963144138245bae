import { DriveError } from '../domain/errors.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent, PutIntent } from '../intents/intent.ts'
import { CarryOut } from './carry-out.ts'
import { deferred, type Deferred } from './deferred.ts'
import { backoffMs, describeFailure, failedForWantOfService } from './failure.ts'
import { findSent } from './lost-answer.ts'
import type { Try, UploaderDeps, UploaderSettings } from './ports.ts'
import {
  blockersOf,
  dueAtMs,
  isDone,
  isForUser,
  isSuperseded,
  isToSend,
  supersededBy,
} from '../intents/rules.ts'
import { failed, publish, withoutFailure } from '../intents/transitions.ts'
import { describeFailed } from './words.ts'

/** A try that is under way. */
interface Job {
  /** Settles when the service has the change, or the try failed. */
  readonly confirmed: Promise<void>
  /** Settles, never rejects, when nothing of the try is left to do. */
  readonly done: Promise<void>
  readonly abort: AbortController
  /** True for one that was begun for draining. */
  readonly isOfDrain: boolean
  sentBytes: number
  /** Undefined until something was sent. */
  totalBytes: number | undefined
}

/** Files that are written while the drive is emptied must not keep it for ever. */
const DRAIN_ROUNDS = 3

/** A transfer as `status` shows it. */
export interface UploadProgress {
  readonly id: IntentId
  readonly name: string
  readonly sentBytes: number
  readonly totalBytes: number
}

/**
 * Carries the outbox to the service: what can be sent is sent, what fails is tried again for as
 * long as the failure can pass.
 */
export class Uploader {
  readonly #deps: UploaderDeps
  readonly #settings: UploaderSettings
  readonly #carryOut: CarryOut
  /** Jobs remove themselves. */
  readonly #jobs = new Map<IntentId, Job>()
  /** When a failed intent is tried again; removed by the next try, or when the intent is gone. */
  readonly #nextTryMs = new Map<IntentId, number>()
  /** Those of them whose time the service named; removed by the next try, or when the intent is gone. */
  readonly #askedToWait = new Set<IntentId>()
  /** Puts whose upload may have arrived without us knowing, until they are confirmed or gone. */
  readonly #mayHaveArrived = new Set<IntentId>()
  readonly #publishing = new Set<IntentId>()
  /** While draining: what failed once and is not tried again before that ends. */
  #failedInDrain: Set<IntentId> | undefined
  #cancelTimer: (() => void) | undefined
  #kicked = false
  #closed = false

  constructor(deps: UploaderDeps, settings: UploaderSettings) {
    this.#deps = deps
    this.#settings = settings
    this.#carryOut = new CarryOut(deps, settings)
    for (const intent of deps.outbox.intents()) {
      if (intent.kind === 'put' && intent.sentAtMs !== undefined && intent.phase !== 'confirmed') {
        this.#mayHaveArrived.add(intent.id)
      }
    }
  }

  /** Takes up what an earlier process left. */
  start(): void {
    this.kick()
  }

  /** Sends soon whatever can be sent. */
  kick(): void {
    if (this.#kicked || this.#closed) return
    this.#kicked = true
    setImmediate(() => {
      this.#kicked = false
      this.#startReady()
    })
  }

  /** The network or the token came back: tries again at once what failed for want of it. */
  serviceIsBack(): void {
    for (const id of this.#nextTryMs.keys()) {
      const isMeant = failedForWantOfService(this.#deps.outbox.get(id))
      if (isMeant && !this.#askedToWait.has(id)) this.#nextTryMs.delete(id)
    }
    this.kick()
  }

  /** Resolves when nothing of an intent is under way any more, however it went. */
  async finished(id: IntentId): Promise<void> {
    await this.#jobs.get(id)?.done
  }

  isRunning(id: IntentId): boolean {
    return this.#jobs.has(id)
  }

  /** Tries one again now, also when it waits for the user. */
  async retry(id: IntentId): Promise<void> {
    await this.#deps.outbox.update(id, withoutFailure, this.#settings)
    this.#nextTryMs.delete(id)
    this.kick()
  }

  /**
   * One try now, of what blocks the intent first. Resolves when the service has the change; rejects
   * with the reason when this try failed (later ones go on in the background). Of an intent that
   * was superseded before it was sent, its successor is tried.
   */
  async attempt(id: IntentId): Promise<void> {
    if (this.#closed) throw new DriveError('interrupted', 'The drive is being closed.')
    const running = this.#jobs.get(id)
    if (running !== undefined) {
      await running.confirmed
      return
    }
    const { outbox } = this.#deps
    const intent = outbox.get(id)
    if (intent === undefined || intent.phase === 'confirmed') return
    const successor = outbox.successorOf(id)
    if (successor !== undefined) {
      if (isToSend(successor)) await this.attempt(successor.id)
      return
    }
    const blockers = this.#blockersOf(intent)
    for (const blocker of blockers) {
      await this.attempt(blocker)
      await this.#jobs.get(blocker)?.done
    }
    if (blockers.length > 0 && outbox.successorOf(id) !== undefined) await this.attempt(id)
    else await this.#run(id).confirmed
  }

  /** When a failed change is tried again; undefined when it is not, or at once. */
  nextTryAtMs(id: IntentId): number | undefined {
    return this.#nextTryMs.get(id)
  }

  /** What is being sent right now. */
  progress(): readonly UploadProgress[] {
    return [...this.#jobs].flatMap(([id, job]) => {
      const intent = this.#deps.outbox.get(id)
      if (intent?.kind !== 'put' || intent.phase === 'confirmed') return []
      const totalBytes = job.totalBytes ?? intent.content.length ?? 0
      return [{ id, name: intent.name, sentBytes: job.sentBytes, totalBytes }]
    })
  }

  /**
   * Sends everything, held puts too, trying each change once that failed before (also in a try that is
   * under way) and does not wait for the user. Resolves when nothing is under way any more: with what still waits, each with its
   * failure.
   */
  async drain(signal: AbortSignal): Promise<readonly Intent[]> {
    this.#failedInDrain = new Set()
    try {
      this.#nextTryMs.clear()
      // A folder that changed while it was sent is held again.
      for (let round = 0; round < DRAIN_ROUNDS; round += 1) {
        if (round > 0 && this.#held().length === 0) break
        await Promise.all(this.#held().map((intent) => this.#publish(intent.id)))
        while (!signal.aborted && this.#hasWork()) {
          this.#startReady()
          await this.#nextChange(signal)
        }
      }
    } finally {
      this.#failedInDrain = undefined
      this.kick()
    }
    return this.#deps.outbox.intents().filter((each) => isToSend(each) || each.phase === 'held')
  }

  #held(): readonly Intent[] {
    return this.#deps.outbox.intents().filter(({ phase }) => phase === 'held')
  }

  /** True while draining is worth the wait. */
  #hasWork(): boolean {
    if (this.#jobs.size > 0) return true
    const isStuck = (id: IntentId): boolean => this.#failedInDrain?.has(id) === true
    return this.#deps.outbox
      .intents()
      .some(
        (intent) =>
          (isToSend(intent) || (isDone(intent) && !this.#isOver(intent))) &&
          !isForUser(intent) &&
          !isSuperseded(this.#deps.outbox, intent.id) &&
          !isStuck(intent.id) &&
          !this.#blockersOf(intent).some(isStuck),
      )
  }

  /** Aborts what runs; the intents stay. */
  async close(): Promise<void> {
    this.#closed = true
    this.#cancelTimer?.()
    for (const job of this.#jobs.values()) job.abort.abort()
    await Promise.all([...this.#jobs.values()].map((job) => job.done))
  }

  async #nextChange(signal: AbortSignal): Promise<void> {
    const timeout = new AbortController()
    const jobs = [...this.#jobs.values()].map((job) => job.done)
    const pause = this.#deps.clock
      .sleep(200, AbortSignal.any([signal, timeout.signal]))
      .catch(() => undefined)
    await Promise.race([...jobs, pause])
    timeout.abort()
  }

  #blockersOf(intent: Intent): readonly IntentId[] {
    return blockersOf(intent, this.#deps.outbox, (id) => this.#jobs.has(id))
  }

  /** A kill may have left what a finished change superseded: its bag is to be deleted yet. */
  #isOver(intent: Intent): boolean {
    return isDone(intent) && this.#superseded(intent.id).length === 0
  }

  /** Stops at the first intent that finds no free place: the end of each job comes back here. */
  #startReady(): void {
    if (this.#closed) return
    const now = this.#deps.clock.now()
    this.#forgetRemoved()
    let soonest = Infinity
    for (const intent of this.#deps.outbox.intents()) {
      if (this.#jobs.size >= this.#settings.concurrency) return
      if (!this.#isOpen(intent)) continue
      const due = Math.max(dueAtMs(intent), this.#nextTryMs.get(intent.id) ?? 0)
      if (due > now) soonest = Math.min(soonest, due)
      else if (intent.phase === 'held') this.#publish(intent.id).catch(told)
      else if (this.#blockersOf(intent).length === 0) this.#run(intent.id)
    }
    this.#wakeAt(soonest, now)
  }

  #forgetRemoved(): void {
    for (const ids of [this.#nextTryMs, this.#askedToWait, this.#mayHaveArrived]) {
      for (const id of ids.keys()) if (this.#deps.outbox.get(id) === undefined) ids.delete(id)
    }
  }

  /** True when an intent is the uploader's business and nobody has it in hand. */
  #isOpen(intent: Intent): boolean {
    const { id, phase } = intent
    if (phase === 'local' || this.#isOver(intent) || isForUser(intent)) return false
    if (this.#jobs.has(id) || this.#publishing.has(id)) return false
    return !isSuperseded(this.#deps.outbox, id) && this.#failedInDrain?.has(id) !== true
  }

  #wakeAt(soonestMs: number, nowMs: number): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    if (soonestMs === Infinity) return
    const wait = Math.min(Math.max(soonestMs - nowMs, 10), 60_000)
    this.#cancelTimer = this.#deps.clock.after(wait, () => {
      this.kick()
    })
  }

  /** Lets a held change go; never rejects: when that cannot be written down it is tried again later. */
  async #publish(id: IntentId): Promise<void> {
    const { outbox, log, clock } = this.#deps
    this.#publishing.add(id)
    try {
      await outbox.update(id, publish, this.#settings)
    } catch (error) {
      this.#nextTryMs.set(id, clock.now() + this.#settings.retryMaxMs)
      log.error({ intent: id, error: String(error) }, 'A held change could not be let go.')
    } finally {
      this.#publishing.delete(id)
      this.kick()
    }
  }

  #run(id: IntentId): Job {
    const running = this.#jobs.get(id)
    if (running !== undefined) return running
    this.#nextTryMs.delete(id)
    this.#askedToWait.delete(id)
    const abort = new AbortController()
    const confirmed = deferred()
    const job: Job = {
      confirmed: confirmed.promise,
      done: this.#try(id, abort, confirmed),
      abort,
      isOfDrain: this.#failedInDrain !== undefined,
      sentBytes: 0,
      totalBytes: undefined,
    }
    this.#jobs.set(id, job)
    return job
  }

  async #try(id: IntentId, abort: AbortController, confirmed: Deferred): Promise<void> {
    // The job is listed before its first step runs.
    await Promise.resolve()
    const attempt: Try = {
      id,
      signal: abort.signal,
      mayHaveArrived: this.#mayHaveArrived.has(id),
      onProgress: (sentBytes, totalBytes) => {
        const job = this.#jobs.get(id)
        if (job !== undefined) Object.assign(job, { sentBytes, totalBytes })
      },
      onAnswerLost: () => this.#mayHaveArrived.add(id),
      onConfirmed: () => {
        this.#mayHaveArrived.delete(id)
        confirmed.resolve()
      },
    }
    try {
      await this.#takeOver(id, attempt)
      await this.#carryOut.run(attempt)
    } catch (error) {
      await this.#failed(id, error)
      confirmed.reject(error)
    } finally {
      this.#jobs.delete(id)
      this.kick()
    }
  }

  /**
   * Drops what an intent supersedes and nobody is sending; what it had to delete is passed on. A put
   * that may have arrived is looked for by the intent's own try first.
   */
  async absorb(id: IntentId): Promise<void> {
    const next = (): PutIntent | undefined =>
      this.#superseded(id).find((put) => !this.#mayHaveArrived.has(put.id))
    for (let put = next(); put !== undefined; put = next()) await this.#carryOut.handOver(put, id)
  }

  /** Takes over all that an intent supersedes, and what those superseded before. */
  async #takeOver(id: IntentId, attempt: Try): Promise<void> {
    const next = (): PutIntent | undefined => this.#superseded(id)[0]
    for (let put = next(); put !== undefined; put = next()) {
      const arrived = this.#mayHaveArrived.has(put.id)
        ? await findSent(this.#deps, this.#settings, put, attempt)
        : undefined
      await this.#carryOut.handOver(arrived === undefined ? put : { ...put, bagId: arrived }, id)
      this.#mayHaveArrived.delete(put.id)
    }
  }

  #superseded(id: IntentId): readonly PutIntent[] {
    return supersededBy(this.#deps.outbox, id).filter((put) => !this.#jobs.has(put.id))
  }

  async #failed(id: IntentId, error: unknown): Promise<void> {
    const { outbox, clock, log } = this.#deps
    // Draining owes each change one try of its own: an earlier one may have met a service that is back.
    const isTriedAtOnce =
      this.#failedInDrain !== undefined && this.#jobs.get(id)?.isOfDrain === false
    if (!isTriedAtOnce) this.#failedInDrain?.add(id)
    const before = outbox.get(id)
    // What was superseded is the successor's business; its own try takes it over.
    if (this.#closed || before === undefined || isSuperseded(this.#deps.outbox, id)) return
    const failure = describeFailure(error, before.failure, clock.now())
    const retryAfterMs = error instanceof DriveError ? error.facts.retryAfterMs : undefined
    const wait = isTriedAtOnce
      ? 0
      : backoffMs(failure.tries, retryAfterMs, this.#settings, Math.random)
    this.#nextTryMs.set(id, clock.now() + wait)
    if (retryAfterMs !== undefined) this.#askedToWait.add(id)
    log.warn(
      { intent: id, name: before.name, code: failure.code, tries: failure.tries, wait },
      `A change ${describeFailed(failure)}`,
    )
    const mayHaveArrived = this.#mayHaveArrived.has(id)
    try {
      await outbox.update(
        id,
        (latest) => failed(latest, failure, { mayHaveArrived }),
        this.#settings,
      )
    } catch (cause) {
      log.error({ intent: id, error: String(cause) }, 'The failure could not be written down.')
    }
  }
}

/** For what has told the log itself. */
const told = (): void => undefined
