/**
 * What is known of the service's answers to `Range`: nothing, announced by `Accept-Ranges`, seen
 * (a 206), or refused (a 200 to a `Range`). Shared by all bags; what was seen beats what was said.
 */
export type RangeAnswer = 'unknown' | 'announced' | 'seen' | 'refused'

export class RangeSupport {
  #answer: RangeAnswer = 'unknown'

  get answer(): RangeAnswer {
    return this.#answer
  }

  /** True as long as it is worth asking for a range. */
  get mayAsk(): boolean {
    return this.#answer !== 'refused'
  }

  /** True when a stream that is stopped can be taken up again where it was. */
  get canResume(): boolean {
    return this.#answer === 'announced' || this.#answer === 'seen'
  }

  /** Takes note of an answer's head. `asked` is the first byte of the range, 0 when none was asked. */
  note(
    requestedStart: number,
    head: { readonly start: number; readonly acceptsRanges: boolean },
  ): void {
    if (requestedStart > 0) this.#answer = head.start > 0 ? 'seen' : 'refused'
    else if (head.acceptsRanges && this.#answer === 'unknown') this.#answer = 'announced'
  }
}

/** The same for one bag: a service may refuse a range of one that it answers for others. */
export class BagRangeSupport {
  readonly #shared: RangeSupport
  #isRefused = false

  constructor(shared: RangeSupport) {
    this.#shared = shared
  }

  get mayAsk(): boolean {
    return this.#shared.mayAsk && !this.#isRefused
  }

  get canResume(): boolean {
    return this.#shared.canResume && !this.#isRefused
  }

  note(...answer: Parameters<RangeSupport['note']>): void {
    this.#shared.note(...answer)
  }

  /** This bag is asked for no ranges any more; false when that is so already. */
  refuse(): boolean {
    const isNew = !this.#isRefused
    this.#isRefused = true
    return isNew
  }
}
