import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'

/** Longer than any part needs: what runs is aborted first. A drive that leaves must end. */
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

  /**
   * Rejects with the first error, after all have had their turn. When one does not end, resolves at
   * once. What it stands on, such as the lock of the state directory, is then let go only by the
   * end of the process.
   */
  async run({ clock, log }: { readonly clock: Clock; readonly log: Logger }): Promise<void> {
    const errors: unknown[] = []
    for (const { what, letGo } of this.#held.splice(0).reverse()) {
      const end = letGo().catch((error: unknown) => {
        errors.push(error)
      })
      if (await this.#isLate(end, clock)) {
        log.error({ what }, 'A part of the drive does not end.')
        throw new DriveError('timed-out', `The ${what} of the drive does not end.`, {
          hint: 'What waits is kept in the outbox; the next mount sends it.',
        })
      }
    }
    if (errors.length > 0) throw errors[0]
  }

  async #isLate(end: Promise<void>, clock: Clock): Promise<boolean> {
    const enough = new AbortController()
    const late = clock.sleep(this.#longestMs, enough.signal).then(
      () => true,
      () => false,
    )
    const isLate = await Promise.race([end.then(() => false), late])
    enough.abort()
    return isLate
  }
}
