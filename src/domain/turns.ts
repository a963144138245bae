/** How long work may keep the event loop before it rests, and for how long it then does. */
const WORK_MS = 4
const REST_MS = 1

/**
 * Long work on many small things, done in pieces. Calls that come meanwhile are answered between
 * them. `if (turns.isOver()) await turns.next()` belongs after each small step.
 */
export class Turns {
  readonly #stepsPerLook: number
  #steps = 0
  #begunAtMs = performance.now()

  /** Looking at the clock costs as much as a small step: that is done after so many. */
  constructor(stepsPerLook: number) {
    this.#stepsPerLook = stepsPerLook
  }

  /** True when others should have their turn now. */
  isOver(): boolean {
    this.#steps += 1
    return this.#steps % this.#stepsPerLook === 0 && performance.now() - this.#begunAtMs >= WORK_MS
  }

  /** Lets others go first, for long enough that a program which asks one thing after the other gets on. */
  async next(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, REST_MS))
    this.#begunAtMs = performance.now()
  }
}

/** Does work that stops after each small step, with turns for others. Resolves with what it returns. */
export async function inTurns<T>(work: Generator<undefined, T>, stepsPerLook: number): Promise<T> {
  const turns = new Turns(stepsPerLook)
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
    if (turns.isOver()) await turns.next()
  }
}

/** Does the same work in one go. */
export function atOnce<T>(work: Generator<undefined, T>): T {
  for (;;) {
    const step = work.next()
    if (step.done === true) return step.value
  }
}
