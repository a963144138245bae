import { DriveError } from '../domain/errors.ts'

export interface ClaimOptions {
  /** Takes bytes also while nothing tells that they are content. */
  readonly takesDoubts?: boolean
  /** Length in bytes that the reader is told when the service does not tell it in time. */
  readonly listedLength?: number
}

/** What a bag must know of each of its readers. */
export class Claim {
  readonly takesDoubts: boolean
  readonly #listedLength: number | undefined
  /** Length that the reader was given before the true one was known. */
  #toldLength: number | undefined
  /** Generation of the bytes that the reader was given; undefined before the first. */
  #generation: number | undefined

  constructor(options: ClaimOptions) {
    this.takesDoubts = options.takesDoubts === true
    this.#listedLength = options.listedLength
  }

  /** The listed length, for want of the true one. */
  tellListed(): number | undefined {
    this.#toldLength = this.#listedLength
    return this.#toldLength
  }

  /** Bytes of that generation were given to the reader. */
  given(generation: number): void {
    this.#generation = generation
  }

  /** Throws `corrupt` when the reader holds bytes that have since turned out to be wrong. */
  check(generation: number): void {
    if (this.#generation === undefined || this.#generation === generation) return
    throw new DriveError('corrupt', 'Content that was read before turned out to be wrong.', {
      hint: 'Open the file again.',
    })
  }

  /**
   * True while a read up to `end` may end before the content of `length` does. Throws `corrupt` when it
   * would: a kernel that was told a length reads no further.
   */
  mayBeCutShort(end: number, length: number | undefined): boolean {
    if (this.#toldLength === undefined || end < this.#toldLength) return false
    if (length === undefined || length <= this.#toldLength) return length === undefined
    const words = `The content is longer than the ${this.#toldLength} bytes that are listed.`
    throw new DriveError('corrupt', words, { hint: 'Open the file again.' })
  }
}
