import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import type { OpenOptions } from '../tree/home.ts'
import type { Source } from '../tree/source.ts'
import { UnchangingFile } from '../tree/unchanging-file.ts'
import type { SharedContent } from './kept-content.ts'

/** An open file that the drive makes up: the content as it was when the file was opened. */
export class VirtualOpenFile extends UnchangingFile {
  readonly #shared: SharedContent
  /** True while what is read is what the size was told of. */
  #isUnread: boolean

  constructor(clock: Clock, shared: SharedContent, options: Omit<OpenOptions, 'truncate'>) {
    super(clock, options)
    this.#shared = shared
    this.#isUnread = options.isUncut !== true
    if (this.#isUnread) shared.unread += 1
  }

  override read(buffer: Uint8Array, position: number): number | Promise<number> {
    const count = super.read(buffer, position)
    if (typeof count !== 'number') return this.#noteLater(count, position)
    this.#noteRead(position + count)
    return count
  }

  async #noteLater(later: Promise<number>, position: number): Promise<number> {
    const count = await later
    this.#noteRead(position + count)
    return count
  }

  #noteRead(end: number): void {
    if (!this.#isUnread || end < this.#shared.content.size) return
    this.#isUnread = false
    this.#shared.unread -= 1
  }

  protected override source(): Source {
    return this.#shared.content.source
  }

  protected override refusal(): DriveError {
    return readOnly()
  }

  override close(): Promise<void> {
    this.#noteRead(Infinity)
    this.#shared.release()
    return Promise.resolve()
  }
}

export function readOnly(): DriveError {
  return new DriveError('not-permitted', 'The drive makes this up: it can only be read.')
}
