import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import type { BagContent } from './bag-content.ts'
import type { BagStream } from './bag-stream.ts'
import type { CacheSpace } from './cache-space.ts'
import type { Waiters } from './waiters.ts'

/** Where there is no room, a reader that needs this many windows at once cannot be served. */
const MOST_WINDOWS = 4

interface Parked {
  readonly position: number
  readonly goOn: (step: RoomStep) => void
}

/** Room was made, no room can be made, or room can be made once readers have caught up. */
type RoomStep = 'made' | 'none' | 'later'

/**
 * Keeps the download of one bag within the room there is. Where the cache or the disk is full and nothing
 * is left to evict, only a window of the content is on disk. The download waits until its readers have
 * consumed that, frees it, and brings more. Content of any known length can be read so; content without
 * a length has to fit.
 */
export class DownloadWindow {
  readonly #space: CacheSpace
  readonly #content: BagContent
  readonly #waiters: Waiters
  readonly #parked = new Map<BagStream, Parked>()
  readonly #clock: Clock
  readonly #graceMs: number
  #wasNeeded = false

  /** A stream without a reader that goes on ends after `graceMs`: other streams need its slot. */
  constructor(
    deps: {
      readonly space: CacheSpace
      readonly content: BagContent
      readonly waiters: Waiters
    },
    { graceMs }: { readonly graceMs: number },
    clock: Clock,
  ) {
    this.#space = deps.space
    this.#content = deps.content
    this.#waiters = deps.waiters
    this.#clock = clock
    this.#graceMs = graceMs
  }

  /** True once there was no room for all that came of this bag. */
  get wasNeeded(): boolean {
    return this.#wasNeeded
  }

  /** Reserves room for a write at `position`; resolves false, with nothing reserved, when the stream was stopped. */
  async makeRoom(stream: BagStream, position: number, bytes: number): Promise<boolean> {
    const isRoomy = await this.#space.reserve(bytes)
    if (!isRoomy) this.#wasNeeded = true
    try {
      if (!isRoomy) await this.#stayInWindow(stream, position, bytes)
    } catch (error) {
      this.#space.adjust(-bytes)
      throw error
    }
    if (stream.stopped) this.#space.adjust(-bytes)
    return !stream.stopped
  }

  async #stayInWindow(stream: BagStream, position: number, bytes: number): Promise<void> {
    const { windowBytes } = this.#space
    if (this.#heldBytes + bytes <= windowBytes) return
    if (this.#content.isEndless(position)) throw this.#giveUp()
    if ((await this.#step(stream, position)) !== 'none' || stream.stopped) return
    if (this.#heldBytes + bytes > MOST_WINDOWS * windowBytes) throw this.#giveUp()
  }

  get #heldBytes(): number {
    return this.#content.file.ranges.covered
  }

  /** Frees the disk of all; returns the error to throw. */
  #giveUp(): DriveError {
    this.#content.dropExcept(0, 0)
    return new DriveError('corrupt', 'The content does not end where the cache does.', {
      hint: 'A larger --cache-size may help.',
    })
  }

  /** After a write failed on a full disk: true when it is worth another try. */
  async findRoom(stream: BagStream, position: number): Promise<boolean> {
    if (await this.#space.evictOne()) return true
    this.#wasNeeded = true
    return (await this.#step(stream, position)) === 'made' && !stream.stopped
  }

  /** Resumes the parked streams whose readers have caught up. */
  resumeParked(): void {
    for (const { position, goOn } of [...this.#parked.values()]) {
      const step = this.#tryStep(position)
      if (step !== 'later') goOn(step)
    }
  }

  async #step(stream: BagStream, position: number): Promise<RoomStep> {
    const now = this.#tryStep(position)
    if (now !== 'later' || stream.stopped) return now
    const stopped = (): void => this.#parked.get(stream)?.goOn('none')
    stream.signal.addEventListener('abort', stopped, { once: true })
    const cancel = this.#clock.after(this.#graceMs, () => {
      stream.stop()
    })
    const step = await new Promise<RoomStep>((goOn) => {
      this.#parked.set(stream, { position, goOn })
    })
    cancel()
    this.#parked.delete(stream)
    stream.signal.removeEventListener('abort', stopped)
    return step
  }

  #tryStep(position: number): RoomStep {
    const held = this.#heldBytes
    if (held === 0) return 'none'
    const waiting = this.#waiters.needs().filter((need) => need.position >= position)
    if (waiting.length === 0) return 'later'
    // Readers do not ask quite in order, and may wait for bytes on both sides of the position.
    const slack = Math.floor(Math.min(this.#space.windowBytes, held) / 2)
    const behind = Math.max(0, position - slack)
    const kept = this.#content.file.ranges.contains(behind, position) ? behind : position
    const keepFrom = Math.min(kept, ...waiting.map(({ from }) => from))
    if (position - keepFrom >= held) return 'none'
    this.#content.dropExcept(keepFrom, position)
    return 'made'
  }
}
