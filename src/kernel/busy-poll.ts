import { availableParallelism } from 'node:os'

/**
 * Programs ask one thing after the other: the next question comes within some 50 µs of an answer. To
 * sleep in between costs two wake-ups per question, which is more than the answer does (docs/BENCHMARKS.md,
 * "Where the time goes").
 */
const AWAKE_MS = 0.1

interface Settings {
  readonly awakeMs?: number
  readonly processors?: number
  /** Monotonic, in ms. */
  readonly now?: () => number
}

/** Keeps the event loop from sleeping for a moment after each call of the kernel and each late answer. */
export class BusyPoll {
  readonly #awakeMs: number
  readonly #now: () => number
  readonly #isAlone: boolean
  #touchedMs = 0
  #isAwake = false

  constructor({ awakeMs = AWAKE_MS, processors = availableParallelism(), now }: Settings = {}) {
    this.#awakeMs = awakeMs
    this.#now = now ?? (() => performance.now())
    // With one processor, the program that asks could not run meanwhile.
    this.#isAlone = processors < 2
  }

  touch(): void {
    if (this.#isAlone) return
    this.#touchedMs = this.#now()
    if (this.#isAwake) return
    this.#isAwake = true
    setImmediate(this.#turn)
  }

  get isAwake(): boolean {
    return this.#isAwake
  }

  readonly #turn = (): void => {
    if (this.#now() - this.#touchedMs < this.#awakeMs) setImmediate(this.#turn)
    else this.#isAwake = false
  }
}
