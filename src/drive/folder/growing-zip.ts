import { DriveError } from '../../domain/errors.ts'

/** The file of a zip that is being written: how far it is, for who reads along. */
export class GrowingZip {
  readonly path: string
  /** Bytes that it will have. */
  readonly length: number
  #written = 0
  #isOver = false
  /** Readers that wait; `#wake` empties it. */
  readonly #waiting: (() => void)[] = []

  constructor(path: string, length: number) {
    this.path = path
    this.length = length
  }

  /** Told how many bytes can be read by now. */
  noteWritten(bytes: number): void {
    this.#written = bytes
    this.#wake()
  }

  /** Told that nothing more comes. */
  noteEnd(): void {
    this.#isOver = true
    this.#wake()
  }

  /** Resolves when so many bytes can be read; rejects `interrupted` when that will never be. */
  async reached(bytes: number): Promise<void> {
    while (this.#written < bytes) {
      if (this.#isOver) throw new DriveError('interrupted', 'The zip was not packed to its end.')
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve)
      })
    }
  }

  #wake(): void {
    for (const goOn of this.#waiting.splice(0)) goOn()
  }
}
