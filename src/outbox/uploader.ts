import { makeClosing } from '../domain/closing.ts'
import { deferred } from '../domain/deferred.ts'
import { DriveError } from '../domain/errors.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { Attempts } from './attempts.ts'
import { CarryOut } from './carry-out.ts'
import { Drain } from './drain.ts'
import { describeFailure, failedForWantOfService, waitBeforeNext } from './failure.ts'
import type { Job, JobControl, Jobs } from './jobs.ts'
import type { Try, UploaderDeps, UploaderSettings } from './ports.ts'
import { TakeOver } from './take-over.ts'
import { TryTimes } from './try-times.ts'
import { UploadTurns } from './upload-turns.ts'
import {
  blockersOf,
  dueAtMs,
  isDone,
  isForUser,
  isSuperseded,
  isTaken,
  isToLookAt,
  isWatched,
} from '../intents/rules.ts'
import { failed, publish, withoutFailure } from '../intents/transitions.ts'
import { describeFailed } from './words.ts'

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
  readonly #takeOver: TakeOver
  readonly #jobs: Jobs
  readonly #attempts: Attempts
  readonly #drain: Drain
  readonly #tryTimes = new TryTimes()
  /** When it was last looked for what is ready: later than now where the clock was set back. */
  #readyAtMs = -Infinity
  readonly #uploadTurns = new UploadTurns()
  /** Puts whose upload may have arrived without us knowing, until they are confirmed or gone. */
  readonly #mayHaveArrived = new Set<IntentId>()
  readonly #publishing = new Set<IntentId>()
  /** See `keepBack`. */
  readonly #keptBack = new Set<{
    readonly ids: ReadonlySet<IntentId>
    readonly end: Promise<void>
  }>()
  #cancelTimer: (() => void) | undefined
  #kicked = false
  #closed = false
  readonly #closing = makeClosing()

  constructor(deps: UploaderDeps, settings: UploaderSettings) {
    this.#deps = deps
    this.#settings = settings
    this.#jobs = deps.jobs
    this.#jobs.onKick(() => {
      this.#startSoon()
    })
    this.#carryOut = new CarryOut(deps, settings)
    this.#takeOver = new TakeOver({
      uploader: deps,
      settings,
      carryOut: this.#carryOut,
      isRunning: (id) => this.#jobs.has(id),
      mayHaveArrived: this.#mayHaveArrived,
      onHandedOver: (from, to) => {
        this.#attempts.handedOver(from, to)
      },
    })
    const parts = {
      ...deps,
      blockersOf: (intent: Intent) => this.#blockersOf(intent),
      isOver: (intent: Intent) => this.#isOver(intent) && !isToLookAt(intent, deps.clock.now()),
    }
    this.#attempts = new Attempts({
      ...parts,
      begin: (id) => this.#run(id),
      keptBackOf: (id) => this.#keptBackOf(id),
    })
    this.#drain = new Drain({
      ...parts,
      startReady: () => {
        this.#startReady()
      },
      publish: (id) => this.#publish(id),
    })
    for (const intent of deps.outbox.intents()) {
      // That it was sent may be what a power cut took.
      if (intent.kind === 'put' && intent.phase === 'waiting' && !isTaken(intent)) {
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
    this.#jobs.kick()
  }

  #startSoon(): void {
    if (this.#kicked || this.#closed) return
    this.#kicked = true
    setImmediate(() => {
      this.#kicked = false
      this.#startReady()
    })
  }

  /** As `kick`, for a program that goes on with other files meanwhile. */
  kickBehind(): void {
    this.#uploadTurns.noteClose(this.#deps.clock.now())
    this.kick()
  }

  /** The network or the token came back: tries again at once what failed for want of it. */
  serviceIsBack(): void {
    this.#tryTimes.hasten((id) => {
      const intent = this.#deps.outbox.get(id)
      return failedForWantOfService(intent) || (intent !== undefined && isWatched(intent))
    })
    this.kick()
  }

  /**
   * Asks the service whether it is there, also where it did not answer a moment ago: until it answers, other calls may
   * fail without having asked. Resolves whatever comes of it.
   */
  async askAnew(signal: AbortSignal = this.#closing.signal): Promise<void> {
    await this.#deps.service.getAccount({ signal, isInPause: true }).catch((error: unknown) => {
      this.#deps.log.debug({ error: String(error) }, 'The service is not back yet.')
    })
  }

  /** See `Attempts.finished`. */
  finished(id: IntentId): Promise<void> {
    return this.#attempts.finished(id)
  }

  isRunning(id: IntentId): boolean {
    return this.#jobs.has(id)
  }

  /** No try of these begins until what this answers is called. */
  keepBack(ids: readonly IntentId[]): () => void {
    const { promise: end, resolve } = deferred()
    const kept = { ids: new Set(ids), end }
    this.#keptBack.add(kept)
    return () => {
      this.#keptBack.delete(kept)
      resolve()
      this.kick()
    }
  }

  /** Tries one again now, also when it waits for the user. */
  async retry(id: IntentId): Promise<void> {
    await this.#deps.outbox.update(id, withoutFailure, this.#settings)
    this.#tryTimes.delete(id)
    this.kick()
  }

  /** True while the service may have a put without having said so. */
  mayHaveArrived(id: IntentId): boolean {
    return this.#mayHaveArrived.has(id)
  }

  /**
   * Looks once whether the service has a put whose answer was lost; when it does, the put is confirmed. False also
   * when no listing can be had, and while another try has it in hand.
   */
  async hasArrived(id: IntentId): Promise<boolean> {
    const put = this.#deps.outbox.put(id)
    if (put === undefined || this.#jobs.has(id)) return false
    const nextTryMs = this.#tryTimes.get(id) ?? 0
    // No try in the background comes between.
    this.#tryTimes.set(id, Infinity)
    try {
      const isThere = await this.#carryOut.confirmFound(put, this.#closing.signal)
      if (isThere) this.#mayHaveArrived.delete(id)
      return isThere
    } catch (error) {
      this.#deps.log.debug({ intent: id, error: String(error) }, 'Whether it arrived is not known.')
      return false
    } finally {
      if (this.#tryTimes.get(id) !== undefined) this.#tryTimes.set(id, nextTryMs)
      this.kick()
    }
  }

  /** See `Attempts.attempt`. */
  attempt(id: IntentId): Promise<void> {
    return this.#attempts.attempt(id)
  }

  /** See `Attempts.attemptRest`. */
  attemptRest(id: IntentId): Promise<void> {
    return this.#attempts.attemptRest(id)
  }

  /** When a failed change is tried again; undefined when it is not, or at once. */
  nextTryAtMs(id: IntentId): number | undefined {
    return this.#tryTimes.get(id)
  }

  /** What is being sent right now. */
  progress(): readonly UploadProgress[] {
    return Array.from(this.#jobs.all()).flatMap(([id, job]) => {
      const put = this.#deps.outbox.put(id)
      if (put === undefined || isTaken(put)) return []
      const totalBytes = put.content.length ?? 0
      return [{ id, name: put.name, sentBytes: job.sentBytes, totalBytes }]
    })
  }

  /**
   * Sends everything, held puts too. Changes that failed before (also in a try that is under way)
   * are tried once more, unless they wait for the user. Resolves when nothing is under way any
   * more: with what still waits, each with its failure.
   */
  async drain(signal: AbortSignal): Promise<readonly Intent[]> {
    // A change that fails because nothing was asked has not been tried.
    if (this.#deps.outbox.intents().some(failedForWantOfService)) await this.askAnew(signal)
    this.#tryTimes.clear()
    try {
      return await this.#drain.run(signal)
    } finally {
      this.kick()
    }
  }

  /** Aborts what runs; the intents stay. */
  async close(): Promise<void> {
    this.#closed = true
    this.#attempts.close()
    this.#closing.abort()
    this.#cancelTimer?.()
    await this.#jobs.close()
  }

  #blockersOf(intent: Intent): readonly IntentId[] {
    return blockersOf(intent, this.#deps.outbox, (id) => this.#jobs.has(id))
  }

  /** A kill may have left what a finished change superseded: its bag is to be deleted yet. */
  #isOver(intent: Intent): boolean {
    if (!isDone(intent)) return false
    return intent.supersedes.length === 0 || this.#takeOver.superseded(intent.id).length === 0
  }

  /** Stops at the first intent that finds no free place: the end of each job comes back here. */
  #startReady(): void {
    if (this.#closed) return
    const now = this.#deps.clock.now()
    if (now < this.#readyAtMs) {
      this.#deps.outbox.followClock()
      this.#tryTimes.forgetTimes()
    }
    this.#readyAtMs = now
    this.#forgetRemoved()
    let soonest = Infinity
    for (const intent of this.#deps.outbox.intents()) {
      if (this.#jobs.busy >= this.#settings.concurrency) return
      const nextMs = this.#drain.isRunning ? undefined : this.#uploadTurns.next(now)
      if (nextMs !== undefined) {
        soonest = Math.min(soonest, nextMs)
        break
      }
      if (!this.#isOpen(intent)) continue
      const due = this.#dueAtMs(intent)
      if (due > now) soonest = Math.min(soonest, due)
      else if (intent.phase === 'held') this.#publish(intent.id).catch(alreadyLogged)
      else if (this.#blockersOf(intent).length === 0) {
        this.#run(intent.id)
        this.#uploadTurns.noteBegin(now)
      }
    }
    this.#wakeAt(soonest, now)
  }

  #dueAtMs(intent: Intent): number {
    // What it superseded is left.
    const isLeft = isDone(intent) && !this.#isOver(intent)
    return Math.max(isLeft ? 0 : dueAtMs(intent), this.#tryTimes.get(intent.id) ?? 0)
  }

  #forgetRemoved(): void {
    const isGone = (id: IntentId): boolean => this.#deps.outbox.get(id) === undefined
    this.#tryTimes.forget(isGone)
    for (const id of this.#mayHaveArrived) if (isGone(id)) this.#mayHaveArrived.delete(id)
  }

  /** True when an intent is the uploader's business and no job has it in hand. */
  #isOpen(intent: Intent): boolean {
    const { id, phase } = intent
    const isAtRest = this.#isOver(intent) && !isWatched(intent)
    if (phase === 'local' || isAtRest || isForUser(intent)) return false
    if (this.#jobs.has(id) || this.#publishing.has(id)) return false
    if (this.#keptBackOf(id) !== undefined) return false
    return !isSuperseded(this.#deps.outbox, id) && !this.#drain.hasFailed(id)
  }

  /** Resolves when a try of it may begin; undefined where that is so now. */
  #keptBackOf(id: IntentId): Promise<void> | undefined {
    for (const { ids, end } of this.#keptBack) if (ids.has(id)) return end
    return undefined
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
      this.#tryTimes.set(id, clock.now() + this.#settings.retryMaxMs)
      log.error({ intent: id, error: String(error) }, 'A held change could not be let go.')
    } finally {
      this.#publishing.delete(id)
      this.kick()
    }
  }

  #run(id: IntentId): Job {
    const running = this.#jobs.get(id)
    if (running !== undefined) return running
    this.#tryTimes.delete(id)
    return this.#jobs.begin(id, {
      isOfDrain: this.#drain.isRunning,
      work: (job) => this.#work(id, job),
      onFailed: (error) => this.#failed(id, error),
    })
  }

  async #work(id: IntentId, job: JobControl): Promise<void> {
    const attempt: Try = {
      ...job,
      id,
      mayHaveArrived: this.#mayHaveArrived.has(id),
      onAnswerLost: () => this.#mayHaveArrived.add(id),
      onConfirmed: () => {
        this.#mayHaveArrived.delete(id)
        job.onConfirmed()
      },
    }
    await this.#takeOver.run(id, attempt)
    await this.#carryOut.run(attempt)
  }

  /** One listing tells of all. */
  #lookLater(): void {
    const { outbox, clock } = this.#deps
    const atMs = clock.now() + LOOK_AGAIN_MS
    for (const { id } of outbox.intents().filter(isWatched)) this.#tryTimes.set(id, atMs)
  }

  /** See `TakeOver.absorb`. */
  absorb(id: IntentId): Promise<void> {
    return this.#takeOver.absorb(id)
  }

  async #failed(id: IntentId, error: unknown): Promise<void> {
    const { outbox, clock, log } = this.#deps
    // Draining owes each change one try of its own: an earlier one may have met a service that is back.
    const isTriedAtOnce = this.#drain.isRunning && this.#jobs.get(id)?.isOfDrain === false
    if (!isTriedAtOnce) this.#drain.noteFailed(id)
    const before = outbox.get(id)
    // What was superseded is the successor's business; its own try takes it over.
    if (this.#closed || before === undefined || isSuperseded(this.#deps.outbox, id)) return
    if (isToLookAt(before, clock.now())) {
      log.debug({ intent: id, error: String(error) }, 'Whether a bag is still there is not known.')
      this.#lookLater()
      return
    }
    const failure = describeFailure(error, before.failure, clock.now())
    const retryAfterMs = error instanceof DriveError ? error.facts.retryAfterMs : undefined
    const wait = isTriedAtOnce
      ? 0
      : waitBeforeNext(failure.tries, retryAfterMs, this.#settings, Math.random)
    this.#tryTimes.set(id, clock.now() + wait, { isAsked: retryAfterMs !== undefined })
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

/** After a look at what is watched that found no listing. */
const LOOK_AGAIN_MS = 10_000

/** For work that has logged its failure itself. */
const alreadyLogged = (): void => undefined
