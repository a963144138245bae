import type { LeavingProgress } from '../control/protocol.ts'
import type { Clock } from '../domain/clock.ts'
import { isDriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { Drive } from '../drive/drive.ts'
import type { Bridge } from '../kernel/bridge.ts'
import type { Outbox } from '../outbox/outbox.ts'
import { isTaken, isToSend } from '../intents/rules.ts'
import type { Uploader } from '../outbox/uploader.ts'
import { whileReporting } from './while-reporting.ts'

interface LeaveDeps {
  readonly bridge: Bridge
  readonly drive: Drive
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly clock: Clock
  readonly log: Logger
}

/** How a running drive ends: unmount, then empty the outbox. */
export class Leaving {
  readonly #deps: LeaveDeps
  /** Aborted to stop waiting for the outbox. */
  readonly #now = new AbortController()
  readonly #listeners = new Set<(progress: LeavingProgress) => void>()
  /** The one emptying of the outbox that is under way. */
  #draining: Promise<number> | undefined

  constructor(deps: LeaveDeps) {
    this.#deps = deps
  }

  /** Stops waiting: what waits stays in the outbox. */
  hurry(): void {
    this.#now.abort()
  }

  /** Unmounts; rejects `busy` while programs use the drive, unless `lazy`. */
  async unmount(options: { readonly lazy: boolean }): Promise<void> {
    await this.#deps.bridge.unmount(options)
  }

  /** As `unmount`, for a signal: a drive in use is emptied first and then detached all the same. */
  async unmountForSignal(onProgress: (progress: LeavingProgress) => void): Promise<void> {
    if (this.#now.signal.aborted) {
      await this.unmount({ lazy: true })
      return
    }
    try {
      await this.unmount({ lazy: false })
    } catch (error) {
      if (!isDriveError(error, 'busy')) throw error
      this.#deps.log.warn({}, 'Programs still use the drive: it is detached once all is stored.')
      await this.drain(onProgress)
      await this.unmount({ lazy: true })
    }
  }

  /**
   * Sends what waits; resolves with how many changes are kept for the next mount. A call that comes
   * while the outbox is being emptied waits for the same: `bagfs umount` and the drive itself both
   * call it.
   */
  async drain(onProgress: (progress: LeavingProgress) => void): Promise<number> {
    await this.#deps.drive.commitAll()
    this.#listeners.add(onProgress)
    try {
      this.#draining ??= this.#empty().finally(() => {
        this.#draining = undefined
      })
      return await this.#draining
    } finally {
      this.#listeners.delete(onProgress)
    }
  }

  async #empty(): Promise<number> {
    const { uploader, clock } = this.#deps
    const startedAtMs = clock.now()
    let firstBytes: number | undefined
    const report = (): void => {
      const progress = this.#progress(firstBytes ?? 0, startedAtMs)
      firstBytes ??= progress.waitingBytes
      this.#tell(progress)
    }
    try {
      await whileReporting(clock, report, async () => {
        if (!this.#now.signal.aborted) await uploader.drain(this.#now.signal)
      })
      return this.#waiting().length
    } finally {
      this.#tell(this.#progress(0, clock.now()))
    }
  }

  #tell(progress: LeavingProgress): void {
    for (const listener of this.#listeners) listener(progress)
  }

  /** What a folder collects, and a save holds back, waits too. */
  #waiting() {
    const { outbox } = this.#deps
    return outbox
      .intents()
      .filter((each) => isToSend(each) || each.phase === 'held')
      .filter(({ id }) => outbox.successorOf(id) === undefined)
  }

  #progress(firstBytes: number, startedAtMs: number): LeavingProgress {
    const { uploader, clock } = this.#deps
    const waiting = this.#waiting()
    let waitingBytes = 0
    for (const intent of waiting) {
      if (intent.kind === 'put' && !isTaken(intent)) {
        waitingBytes += intent.content.length ?? 0
      }
    }
    for (const upload of uploader.progress()) waitingBytes -= upload.sentBytes
    waitingBytes = Math.max(waitingBytes, 0)
    const seconds = (clock.now() - startedAtMs) / 1000
    const sent = firstBytes - waitingBytes
    const failure = waiting.find((intent) => intent.failure !== undefined)?.failure?.message
    return {
      waiting: waiting.length,
      waitingBytes,
      ...(seconds > 0 && sent > 0 ? { bytesPerSecond: sent / seconds } : {}),
      ...(failure === undefined ? {} : { failure }),
    }
  }
}
