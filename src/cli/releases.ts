import type { Clock } from '../domain/clock.ts'
import type { Logger } from '../domain/logger.ts'

/** What takes longer than this is left behind: nobody waits for ever for a drive that leaves. */
const LONGEST_MS = 10_000

/** What a running drive holds; it is let go in the opposite order. */
export class Releases {
  readonly #held: { readonly what: string; readonly letGo: () => Promise<void> }[] = []
  readonly #longestMs: number

  constructor(longestMs = LONGEST_MS) {
    this.#longestMs = longestMs
  }

  add(what: string, letGo: () => Promise<void>): void {
    this.#held.push({ what, letGo })
  }

  /** Rejects with the first error, after all have had their turn. */
  async run({ clock, log }: { readonly clock: Clock; readonly log: Logger }): Promise<void> {
    const errors: unknown[] = []
    for (const { what, letGo } of this.#held.splice(0).reverse()) {
      const enough = new AbortController()
      const late = clock.sleep(this.#longestMs, enough.signal).then(
        () => {
          log.error({ what }, 'A part of the drive does not end and is left behind.')
        },
        () => undefined,
      )
      const end = letGo().catch((error: unknown) => {
        errors.push(error)
      })
      await Promise.race([end, late])
      enough.abort()
    }
    if (errors.length > 0) throw errors[0]
  }
}
