import type { KeptAttributes } from '../../domain/attributes.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Logger } from '../../domain/logger.ts'
import { Turns } from '../../domain/turns.ts'

/** How long a time of reading may be in memory only. */
const KEPT_AFTER_MS = 60_000
const DAY_MS = 24 * 3_600_000
const KEPT_PER_LOOK = 16

/** When times of the last read move. Those that moved are written down together a minute later: no read waits for that. */
export class Accesses {
  readonly #deps: { readonly clock: Clock; readonly log: Logger }
  readonly #isReadOnly: boolean
  /** What writes them down, by what was read; `keepAll` removes. */
  readonly #waiting = new Map<object, () => void | Promise<void>>()
  #cancelTimer: (() => void) | undefined
  #keeping: Promise<void> = Promise.resolve()

  constructor(
    deps: { readonly clock: Clock; readonly log: Logger },
    { readOnly }: { readonly readOnly: boolean },
  ) {
    this.#deps = deps
    this.#isReadOnly = readOnly
  }

  /** True when a read moves atime, by the rule of file systems (relatime): after a change, and once a day. */
  isMoving(kept: KeptAttributes, nowMs: number): boolean {
    const { mtimeMs, ctimeMs = mtimeMs, atimeMs = mtimeMs } = kept
    const isDue = atimeMs <= mtimeMs || atimeMs <= ctimeMs || nowMs - atimeMs >= DAY_MS
    return isDue && !this.#isReadOnly
  }

  /** `keep` is called within a minute, once for all that is noted of a subject until then. */
  note(subject: object, keep: () => void | Promise<void>): void {
    this.#waiting.set(subject, keep)
    this.#cancelTimer ??= this.#deps.clock.after(KEPT_AFTER_MS, () => {
      this.keepAll().catch((error: unknown) => {
        this.#deps.log.error({ error: String(error) }, 'Times of reading cannot be kept.')
      })
    })
  }

  /** Resolves when all that was noted is written down. */
  keepAll(): Promise<void> {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#keeping = this.#keeping.then(() => this.#keepWaiting())
    return this.#keeping
  }

  async #keepWaiting(): Promise<void> {
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    const turns = new Turns(KEPT_PER_LOOK)
    for (const keep of waiting) {
      if (turns.isOver()) await turns.next()
      try {
        await keep()
      } catch (error) {
        this.#deps.log.warn({ error: String(error) }, 'When something was read is not kept.')
      }
    }
  }
}
