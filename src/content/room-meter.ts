import { DriveError } from '../domain/errors.ts'

/** The disk is asked after this much was written, so content is at most this much ahead of what it said. */
const STEP_BYTES = 8 * 1024 * 1024

/** Lets content grow on a disk while that keeps what is to stay free. */
export class RoomMeter {
  readonly #hasRoom: (bytes: number) => Promise<boolean>
  #granted = 0
  #allowance: number

  /** `allowance` is how many bytes may be written although the disk has no room for them. */
  constructor(hasRoom: (bytes: number) => Promise<boolean>, allowance: number) {
    this.#hasRoom = hasRoom
    this.#allowance = allowance
  }

  /** To be called before bytes are written. Rejects `local-disk-full`. */
  async take(bytes: number): Promise<void> {
    if (this.#granted < bytes) this.#granted += await this.#grant(bytes - this.#granted)
    this.#granted -= bytes
  }

  async #grant(bytes: number): Promise<number> {
    const step = Math.max(bytes, STEP_BYTES)
    if (await this.#hasRoom(step)) return step
    if (await this.#hasRoom(bytes)) return bytes
    if (this.#allowance < bytes) throw full()
    this.#allowance -= bytes
    return bytes
  }
}

function full(): DriveError {
  return new DriveError(
    'local-disk-full',
    'The local disk has no room for content that is unpacked.',
    {
      hint: 'Make room on the disk and try again.',
    },
  )
}
