import { deferred } from '../domain/deferred.ts'
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
interface JobControl {
  readonly signal: AbortSignal
  /** So many bytes of the upload are sent. */
  readonly onProgress: (sentBytes: number) => void
  /** The service has the change. */
  readonly onConfirmed: () => void
  /** What is left needs neither the service nor much else for a while. */
  readonly onResting: () => void
}

interface JobsDeps {
  /** Told of the error of a job before it ends; never rejects. */
  readonly onFailed: (id: IntentId, error: unknown) => Promise<void>
  /** Another may begin. */
  readonly onPlace: () => void
}

/** The tries that are under way, one for an intent at most. */
export class Jobs {
  readonly #deps: JobsDeps
  /** Jobs remove themselves. */
  readonly #jobs = new Map<IntentId, Job & { sentBytes: number; readonly abort: AbortController }>()
  readonly #resting = new Set<IntentId>()

  constructor(deps: JobsDeps) {
    this.#deps = deps
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
  begin(id: IntentId, isOfDrain: boolean, work: (control: JobControl) => Promise<unknown>): Job {
    const abort = new AbortController()
    const confirmed = deferred()
    const control = {
      signal: abort.signal,
      onConfirmed: confirmed.resolve,
      onResting: (): void => {
        this.#resting.add(id)
        this.#deps.onPlace()
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
        await this.#deps.onFailed(id, error)
        confirmed.reject(error)
      } finally {
        this.#resting.delete(id)
        this.#jobs.delete(id)
        this.#deps.onPlace()
      }
    }
    const job = { confirmed: confirmed.promise, done: run(), isOfDrain, sentBytes: 0, abort }
    this.#jobs.set(id, job)
    return job
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
