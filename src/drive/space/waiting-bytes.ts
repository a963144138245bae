import type { IntentId } from '../../domain/ids.ts'
import type { Account } from '../../domain/record.ts'
import type { Intent } from '../../intents/intent.ts'
import { isTaken } from '../../intents/rules.ts'
import { failedForWantOfRoom } from '../../outbox/failure.ts'

/** What the service told of an account, and when it was asked, in ms since the epoch. */
export interface AccountThen extends Account {
  readonly askedAtMs: number
}

/** Bytes of puts that an account's figure does not count yet, and that can be sent as things are. */
export class WaitingBytes {
  readonly #account: AccountThen
  readonly #byIntent = new Map<IntentId, number>()
  #sum = 0

  constructor(account: AccountThen) {
    this.#account = account
  }

  get sum(): number {
    return this.#sum
  }

  /** Counts an intent as it is now; told twice of the same, it counts that once. */
  set(intent: Intent): void {
    const { id } = intent
    const bytes = this.#bytesOf(intent)
    this.#sum += bytes - (this.#byIntent.get(id) ?? 0)
    if (bytes > 0) this.#byIntent.set(id, bytes)
    else this.#byIntent.delete(id)
  }

  delete({ id }: Intent): void {
    this.#sum -= this.#byIntent.get(id) ?? 0
    this.#byIntent.delete(id)
  }

  #bytesOf(intent: Intent): number {
    const { askedAtMs, spaceLeft } = this.#account
    if (intent.kind !== 'put' || intent.phase === 'local') return 0
    if (intent.confirmedAtMs !== undefined && intent.confirmedAtMs < askedAtMs) return 0
    const length = intent.content.length ?? 0
    const isTooLarge = !isTaken(intent) && length > spaceLeft
    return isTooLarge || failedForWantOfRoom(intent) ? 0 : length
  }
}
