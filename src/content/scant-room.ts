import type { Clock } from '../domain/clock.ts'
import type { BagStream } from './bag-stream.ts'
import type { CacheSpace } from './cache-space.ts'
import type { Need } from './waiters.ts'

/** A reader that waits for this many windows at once cannot be served where there is no room. */
const MOST_WINDOWS = 4

/** What is asked of the bag. */
interface Holder {
  needs(): readonly Need[]
  /** How many bytes of the bag are on disk. */
  held(): number
  isHere(start: number, end: number): boolean
  /** True when no length is known that would end the content past `position`. */
  isEndless(position: number): boolean
  /** Frees the disk of all of them but those from `start` to `end`. */
  dropExcept(start: number, end: number): void
  /** Frees the disk of all; returns the error to throw. */
  giveUp(): Error
}

/** Room was made; none can be; or some can be as soon as readers have caught up. */
type RoomStep = 'made' | 'none' | 'later'

/**
 * Room for one bag's bytes. Where the cache or the disk is full and nothing is left to evict, a download
 * goes on in step with its readers: it waits until what it brought is consumed, frees that, and brings
 * more. So content of any length can be read through a window; content without a length has to fit.
 */
export class ScantRoom {
  readonly #space: CacheSpace
  readonly #holder: Holder
  readonly #parked = new Map<BagStream, (step: RoomStep) => void>()
  readonly #waiting: { readonly clock: Clock; readonly graceMs: number }

  /** A stream that nobody reads on from ends after `graceMs`: others want its turn. */
  constructor(
    space: CacheSpace,
    holder: Holder,
    waiting: { readonly clock: Clock; readonly graceMs: number },
  ) {
    this.#space = space
    this.#holder = holder
    this.#waiting = waiting
  }

  /** Reserves room for a write; resolves false, with nothing reserved, when the stream was stopped. */
  async makeRoom(stream: BagStream, bytes: number): Promise<boolean> {
    const isRoomy = await this.#space.reserve(bytes)
    try {
      if (!isRoomy) await this.#stayInWindow(stream, bytes)
    } catch (error) {
      this.#space.adjust(-bytes)
      throw error
    }
    if (stream.stopped) this.#space.adjust(-bytes)
    return !stream.stopped
  }

  async #stayInWindow(stream: BagStream, bytes: number): Promise<void> {
    const { windowBytes } = this.#space
    if (this.#holder.held() + bytes <= windowBytes) return
    if (this.#holder.isEndless(stream.position)) throw this.#holder.giveUp()
    if ((await this.#step(stream)) !== 'none' || stream.stopped) return
    if (this.#holder.held() + bytes > MOST_WINDOWS * windowBytes) throw this.#holder.giveUp()
  }

  /** After a write failed on a full disk: true when it is worth another try. */
  async findRoom(stream: BagStream): Promise<boolean> {
    if (await this.#space.evictOne()) return true
    return (await this.#step(stream)) === 'made' && !stream.stopped
  }

  /** Lets those go on that waited for readers who have caught up now. */
  look(): void {
    for (const [stream, goOn] of [...this.#parked]) {
      const step = this.#tryStep(stream)
      if (step !== 'later') goOn(step)
    }
  }

  async #step(stream: BagStream): Promise<RoomStep> {
    const now = this.#tryStep(stream)
    if (now !== 'later' || stream.stopped) return now
    const stopped = (): void => this.#parked.get(stream)?.('none')
    stream.signal.addEventListener('abort', stopped, { once: true })
    const { clock, graceMs } = this.#waiting
    const cancel = clock.after(graceMs, () => {
      stream.stop()
    })
    const step = await new Promise<RoomStep>((resolve) => {
      this.#parked.set(stream, resolve)
    })
    cancel()
    this.#parked.delete(stream)
    stream.signal.removeEventListener('abort', stopped)
    return step
  }

  #tryStep(stream: BagStream): RoomStep {
    const held = this.#holder.held()
    if (held === 0) return 'none'
    const { position } = stream
    const waiting = this.#holder.needs().filter((need) => need.position >= position)
    if (waiting.length === 0) return 'later'
    // Readers do not ask quite in order, and may wait for bytes on both sides of the position.
    const slack = Math.floor(Math.min(this.#space.windowBytes, held) / 2)
    const behind = Math.max(0, position - slack)
    const kept = this.#holder.isHere(behind, position) ? behind : position
    const keepFrom = Math.min(kept, ...waiting.map(({ from }) => from))
    if (position - keepFrom >= held) return 'none'
    this.#holder.dropExcept(keepFrom, position)
    return 'made'
  }
}
