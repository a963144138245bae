import type { BagId } from '../domain/ids.ts'
import type { FactsAccess } from '../domain/record.ts'
import type { KnownLengths } from './belief.ts'

export interface BagKnowledgeDeps {
  readonly facts: FactsAccess
  /** Sizes in bytes that the listing tells of a bag, one for each of its records that has any. */
  readonly listedSizes: (bagId: BagId) => readonly number[]
}

/** What is known of a bag beside its bytes: what the listing tells, and facts of what was stored or read here. */
export class BagKnowledge {
  readonly #bagId: BagId
  readonly #deps: BagKnowledgeDeps

  constructor(deps: BagKnowledgeDeps, bagId: BagId) {
    this.#deps = deps
    this.#bagId = bagId
  }

  /** Its length, when content of it was here before. */
  get length(): number | undefined {
    return this.#facts?.length
  }

  /** SHA-256 of what was stored from here. */
  get sha256(): string | undefined {
    return this.#facts?.sha256
  }

  get lengths(): KnownLengths {
    const { length, sha256 } = this
    const listed = this.#listedSizes
    // With a sum, the content was written here.
    if (sha256 !== undefined) return { uploadedLength: length, possibleLengths: listed }
    return {
      uploadedLength: undefined,
      possibleLengths: length === undefined ? listed : [...listed, length],
    }
  }

  /** True when a position is certainly inside the content, going by the listing. */
  isInside(position: number): boolean {
    const listed = this.#listedSizes
    return listed.length > 0 && position < Math.min(...listed)
  }

  /** True when the listing tells of no content that goes on past a position. */
  isPast(position: number): boolean {
    return position >= Math.max(0, ...this.#listedSizes)
  }

  isListed(length: number | undefined): boolean {
    return length !== undefined && this.#listedSizes.includes(length)
  }

  /** True when something else than the content itself tells its length. */
  isTold(length: number | undefined): boolean {
    const known = this.#facts
    if (known?.sha256 !== undefined || this.isListed(length)) return true
    return length !== undefined && known?.isCertain === true && known.length === length
  }

  /** What is certain stays so when the listing has the bag no more. */
  learn(length: number): void {
    const known = this.#facts
    const isCertain = this.isListed(length)
    if (known?.length === length && (known.isCertain === true || !isCertain)) return
    this.#deps.facts.learn(this.#bagId, { length, isCertain })
  }

  /** What came was not the bag's content: its length counts for nothing, unless something else tells it. */
  forgetLength(): void {
    const { length } = this
    if (length === undefined || this.isTold(length)) return
    this.#deps.facts.learn(this.#bagId, { length: undefined })
  }

  get #facts() {
    return this.#deps.facts.get(this.#bagId)
  }

  get #listedSizes(): readonly number[] {
    return this.#deps.listedSizes(this.#bagId)
  }
}
