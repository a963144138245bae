import { deferred } from '../domain/deferred.ts'
import { DriveError } from '../domain/errors.ts'
import type { IntentId } from '../domain/ids.ts'

/** A try that is under way. */
export interface Job {
  /** Settles when the service has the change, or the try failed. */
  readonly confirmed: Promise<void>
  /** Settles, never rejects, when nothing of the try is left to do. */
  readonly done: Promise<void>
  /** True for one that was begun for draining. */
  readonly isOfDrain: boolean
  readonly sentBytes: number
}

/** What the work of a job is given. */
export interface JobControl {
  readonly signal: AbortSignal
  /** So many bytes of the upload are sent. */
  readonly onProgress: (sentBytes: number) => void
  /** The service has the change. */
  readonly onConfirmed: () => void
  /** What is left needs neither the service nor much else for a while. */
  readonly onResting: () => void
}

interface NewJob {
  readonly isOfDrain: boolean
  readonly work: (control: JobControl) => Promise<unknown>
  /** Told of the error before the job ends; never rejects. */
  readonly onFailed: (error: unknown) => Promise<void>
}

/**
 * The tries that are under way, one for an intent at most. The uploader makes them. The parts of the drive that it asks
 * of a folder or a name know only these.
 */
export class Jobs {
  /** Jobs remove themselves. */
  readonly #jobs = new Map<IntentId, Job & { sentBytes: number; readonly abort: AbortController }>()
  readonly #resting = new Set<IntentId>()
  readonly #listeners: (() => void)[] = []

  /** `listener` is told when there may be something to begin, and when one more may begin. */
  onKick(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** Sends soon whatever can be sent. */
  kick(): void {
    for (const listener of this.#listeners) listener()
  }

  get size(): number {
    return this.#jobs.size
  }

  /** Those that are at work. */
  get busy(): number {
    return this.#jobs.size - this.#resting.size
  }

  has(id: IntentId): boolean {
    return this.#jobs.has(id)
  }

  get(id: IntentId): Job | undefined {
    return this.#jobs.get(id)
  }

  all(): Iterable<readonly [IntentId, Job]> {
    return this.#jobs
  }

  /** Begins one; it is listed before its work begins. */
  begin(id: IntentId, { isOfDrain, work, onFailed }: NewJob): Job {
    const abort = new AbortController()
    const confirmed = deferred()
    const control = {
      signal: abort.signal,
      onConfirmed: confirmed.resolve,
      onResting: (): void => {
        this.#resting.add(id)
        this.kick()
      },
      onProgress: (sentBytes: number): void => {
        job.sentBytes = sentBytes
      },
    }
    const run = async (): Promise<void> => {
      await Promise.resolve()
      try {
        await work(control)
      } catch (error) {
        await onFailed(error)
        confirmed.reject(error)
      } finally {
        this.#resting.delete(id)
        this.#jobs.delete(id)
        this.kick()
      }
    }
    const job = { confirmed: confirmed.promise, done: run(), isOfDrain, sentBytes: 0, abort }
    this.#jobs.set(id, job)
    return job
  }

  /** Nothing is begun for these while `task` runs; what waits for one of them is told that it was taken back. */
  async withhold<Result>(ids: readonly IntentId[], task: () => Promise<Result>): Promise<Result> {
    const over = deferred()
    const work = async (): Promise<never> => {
      await over.promise
      throw new DriveError('interrupted', 'The change was taken back.')
    }
    for (const id of ids) {
      this.begin(id, { isOfDrain: false, work, onFailed: () => Promise.resolve() })
    }
    try {
      return await task()
    } finally {
      over.resolve()
    }
  }

  /** Resolves when the first of those that are under way has ended. */
  async anyEnd(): Promise<void> {
    await Promise.race(Array.from(this.#jobs.values(), ({ done }) => done))
  }

  /** Aborts all; resolves when they have ended. */
  async close(): Promise<void> {
    for (const { abort } of this.#jobs.values()) abort.abort()
    await Promise.all(Array.from(this.#jobs.values(), ({ done }) => done))
  }
}
