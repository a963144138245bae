import { appendNow, replaceFileNow, writeFileAtomic } from '../disk/atomic-file.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { formatIntent } from './intent-file.ts'

/** A file of so many states is written anew: an intent may live for months. */
const MOST_STATES = 100

/**
 * Writes intents down, each in a file of its own to which a line is added for each state. What was on the platter
 * before stays whole, whatever a power cut does to the end. To replace a file instead makes some file systems
 * write it out at once.
 */
export class StateFiles {
  /** How many whole states the file of an intent ends with; 0 where it is to be written anew. */
  readonly #states = new Map<IntentId, number>()

  /** There is a file already; with 0 states it is to be written anew. */
  noteFound(id: IntentId, states: number): void {
    this.#states.set(id, states)
  }

  forget(id: IntentId): void {
    this.#states.delete(id)
  }

  /** Resolves when the state survives a kill of this process. */
  async write(path: string, intent: Intent): Promise<void> {
    const { id } = intent
    const text = formatIntent(intent)
    const states = this.#states.get(id)
    if (states === undefined) {
      replaceFileNow(path, text)
      this.#states.set(id, 1)
      return
    }
    // A write that fails may leave a part of its line.
    this.#states.set(id, 0)
    const isAnew = states === 0 || states >= MOST_STATES
    if (isAnew) await writeFileAtomic(path, text, { durable: true })
    else appendNow(path, text)
    this.#states.set(id, isAnew ? 1 : states + 1)
  }
}
