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
  /** See `ClaimOptions`. */
  readonly listedLength: number | undefined
  /** Length that the reader was given last. */
  #toldLength: number | undefined
  /** Generation of the bytes that the reader was given; undefined before the first. */
  #generation: number | undefined

  constructor(options: ClaimOptions) {
    this.takesDoubts = options.takesDoubts === true
    this.listedLength = options.listedLength
  }

  /** The reader is told this length. */
  tell(length: number): number {
    this.#toldLength = length
    return length
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
   * True while a read may end otherwise than the reader was told, since the true `length` is not known. Throws `corrupt`
   * when it would: a kernel reads no further than the length that it was told, and has zeros where a read is shorter.
   */
  mayEndOtherwise(start: number, end: number, length: number | undefined): boolean {
    const told = this.#toldLength
    if (told === undefined) return false
    if (length === undefined) return end >= told
    const isCut = length > told && end >= told
    const isShort = length < told && end > length && start < told
    if (!isCut && !isShort) return false
    const words = `The content is ${length} bytes long, and ${told} were told before.`
    throw new DriveError('corrupt', words, { hint: 'Open the file again.' })
  }
}
