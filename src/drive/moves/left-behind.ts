import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import type { OpenFile } from '../tree/open-file.ts'
import type { Source } from '../tree/source.ts'
import { UnchangingFile } from '../tree/unchanging-file.ts'

/**
 * An open file that moved, and that could not be opened at its new place. All that was written is there. A
 * program can read what it had, and is told the error when it writes: no name leads to that any more.
 */
export class LeftBehindFile extends UnchangingFile {
  readonly #before: OpenFile
  readonly #error: DriveError

  constructor(clock: Clock, before: OpenFile, cause: unknown) {
    super(clock, before)
    this.#before = before
    const words = 'The file moved, and could not be opened at its new place.'
    this.#error = new DriveError('local-io', words, { cause })
  }

  override read(buffer: Uint8Array, position: number): number | Promise<number> {
    return this.#before.read(buffer, position)
  }

  protected override source(): Source {
    throw this.#error
  }

  protected override refusal(): DriveError {
    return this.#error
  }

  override close(): Promise<void> {
    return Promise.resolve()
  }
}
