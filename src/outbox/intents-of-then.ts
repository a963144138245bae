import type { BagId, IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import type { Outbox } from './outbox.ts'

/**
 * The intents as they are when it is made, however they change until it is closed. Thousands may wait while one of them
 * is sent, so it keeps what changes, and no copy of all.
 */
export class IntentsOfThen {
  readonly #outbox: Pick<Outbox, 'intents' | 'ofBag'>
  /** What has changed since, as it was; undefined for what is new. */
  readonly #before = new Map<IntentId, Intent | undefined>()
  readonly #stop: () => void

  constructor(outbox: Pick<Outbox, 'intents' | 'ofBag' | 'onChange'>) {
    this.#outbox = outbox
    this.#stop = outbox.onChange((before, after) => {
      const id = (before ?? after)?.id
      if (id !== undefined && !this.#before.has(id)) this.#before.set(id, before)
    })
  }

  /** Those that have something to do with a bag, and maybe others. */
  ofBag(bagId: BagId): readonly Intent[] {
    return this.#asThen(this.#outbox.ofBag(bagId))
  }

  /** All, in no order. */
  intents(): readonly Intent[] {
    return this.#asThen(this.#outbox.intents())
  }

  #asThen(now: readonly Intent[]): readonly Intent[] {
    const changed = [...this.#before.values()].filter((intent) => intent !== undefined)
    return [...now.filter(({ id }) => !this.#before.has(id)), ...changed]
  }

  close(): void {
    this.#stop()
  }
}
