import type { Clock } from '../domain/clock.ts'
import { deferred } from '../domain/deferred.ts'
import { driveCloses } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { ifThere } from './if-there.ts'
import { syncFile } from './sync.ts'

/** How long what was written may be lost by a power cut, in milliseconds. */
const LONGEST_MS = 1_000
/** Beyond so many files and directories one sync of the whole file system costs less. */
const MANY = 32
/** Threads that wait for the disk; the others serve reads and requests meanwhile. */
const AT_ONCE = 2

/** Makes all of the file system that `path` is on survive a power cut; false where the machine has no such call. */
export type SyncFileSystem = (path: string) => Promise<boolean>

interface GroupSyncDeps {
  readonly clock: Clock
  readonly log: Logger
  readonly syncFileSystem?: SyncFileSystem
}

/**
 * Gets what was written onto the platter, for many writes at once. A write survives a kill of this process as it is;
 * it is noted here, and survives a power cut a second later, or when something asks for that. All that was noted
 * until a round begins is one group.
 */
export class GroupSync {
  readonly #deps: GroupSyncDeps
  /** On the file system that all of it is on. */
  readonly #dir: string
  #paths = new Set<string>()
  #group: number
  #done: number
  /** The last group that content was noted in. */
  #given = 0
  #running: Promise<void> | undefined
  #next: Promise<void> | undefined
  #cancelTimer: (() => void) | undefined
  #hurries = 0
  readonly #listeners = new Set<(group: number) => void>()
  readonly #failureListeners = new Set<(group: number) => void>()
  /** Those that wait for a round without asking for it, by the group that they wait for. */
  readonly #waiting = new Set<{ readonly group: number; readonly go: () => void }>()

  constructor(deps: GroupSyncDeps, dir: string) {
    this.#deps = deps
    this.#dir = dir
    // Later than any group of an earlier process.
    this.#group = deps.clock.now()
    this.#done = this.#group - 1
  }

  /** What is noted now belongs to it. */
  get group(): number {
    return this.#group
  }

  /** True when all of a group is on the platter. */
  isDone(group: number): boolean {
    return group <= this.#done
  }

  /** These files and directories were written; answers their group. With `isGiven`, content that was promised is among it. */
  note(paths: readonly string[], { isGiven = false } = {}): number {
    for (const path of paths) this.#paths.add(path)
    if (isGiven) this.#given = this.#group
    this.#arm()
    return this.#group
  }

  /** Resolves when all that was noted so far is on the platter. Rejects with what the disk has against it: then it is tried again. */
  async complete(): Promise<void> {
    if (this.#paths.size === 0) return this.#running
    this.#next ??= this.#round()
    return this.#next
  }

  /** As `complete`, where promised content is what matters. */
  async completeGiven(): Promise<void> {
    if (!this.isDone(this.#given)) await this.complete()
  }

  /** Resolves when all that was noted so far is on the platter, without asking for it; rejects when it is aborted before. */
  async passed(signal?: AbortSignal): Promise<void> {
    const last = this.#paths.size === 0 ? this.#group - 1 : this.#group
    if (this.isDone(last)) return
    const { promise, resolve, reject } = deferred()
    const waiting = { group: last, go: resolve }
    const stop = (): void => {
      reject(driveCloses())
    }
    this.#waiting.add(waiting)
    signal?.addEventListener('abort', stop)
    try {
      if (signal?.aborted === true) stop()
      await promise
    } finally {
      this.#waiting.delete(waiting)
      signal?.removeEventListener('abort', stop)
    }
  }

  /** Rounds begin at once until the function that this answers is called: something waits for all of them. */
  hurry(): () => void {
    this.#hurries += 1
    this.#arm()
    return () => {
      this.#hurries -= 1
    }
  }

  /** Calls `listener` with each group that is on the platter, and all before it. */
  onDone(listener: (group: number) => void): void {
    this.#listeners.add(listener)
  }

  /**
   * Calls `listener` with each group that the disk refused. Linux reports lost bytes once: the next sync of them
   * succeeds, whatever is on the platter (https://wiki.postgresql.org/wiki/Fsync_Errors).
   */
  onFailure(listener: (group: number) => void): void {
    this.#failureListeners.add(listener)
  }

  /** The last round. */
  async close(): Promise<void> {
    try {
      await this.complete()
    } finally {
      this.#cancelTimer?.()
    }
  }

  #arm(): void {
    if (this.#paths.size === 0) return
    if (this.#hurries > 0) {
      this.#complete()
      return
    }
    this.#armTimer()
  }

  #armTimer(): void {
    this.#cancelTimer ??= this.#deps.clock.after(LONGEST_MS, () => {
      this.#cancelTimer = undefined
      this.#complete()
    })
  }

  #complete(): void {
    this.complete().catch((error: unknown) => {
      this.#deps.log.error(
        { error: String(error) },
        'The local disk does not keep what is written.',
      )
    })
  }

  async #round(): Promise<void> {
    // A failure of the round before is told to those that waited for it; its paths are in this one.
    await this.#running?.catch(() => undefined)
    this.#next = undefined
    const paths = this.#paths
    const group = this.#group
    this.#paths = new Set()
    this.#group += 1
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    const running = this.#sync(paths)
    this.#running = running
    try {
      await running
    } catch (error) {
      for (const path of paths) this.#paths.add(path)
      for (const listener of this.#failureListeners) listener(group)
      // A disk that refuses is not asked again at once.
      this.#armTimer()
      throw error
    } finally {
      if (this.#running === running) this.#running = undefined
    }
    this.#done = group
    this.#tell()
  }

  #tell(): void {
    for (const listener of this.#listeners) listener(this.#done)
    for (const each of this.#waiting) {
      if (this.isDone(each.group)) each.go()
    }
  }

  async #sync(paths: ReadonlySet<string>): Promise<void> {
    const { syncFileSystem } = this.#deps
    if (paths.size > MANY && syncFileSystem !== undefined && (await syncFileSystem(this.#dir))) {
      return
    }
    const left = paths.values()
    const syncRest = async (): Promise<void> => {
      // What was removed or renamed since was noted under its new name.
      for (const path of left) await ifThere(syncFile(path))
    }
    await Promise.all(Array.from({ length: AT_ONCE }, syncRest))
  }
}
