import type { BagStream } from './bag-stream.ts'
import type { CacheSpace } from './cache-space.ts'
import type { Need } from './waiters.ts'

/** What one bag may hold on a disk that is at its floor. */
export const SCANT_BYTES = 16 * 1024 * 1024

/** What is asked of the bag. */
interface Holder {
  needs(): readonly Need[]
  /** How many bytes of the bag are on disk. */
  held(): number
  /** Frees the disk of all of them but those from `start` to `end`. */
  dropExcept(start: number, end: number): void
}

/** Room was made; none can be; or some can be as soon as readers have caught up. */
type Step = 'made' | 'none' | 'later'

/**
 * Room for one bag's bytes. On a full disk with nothing left to evict, a download goes on in step
 * with its readers: it waits until what it brought is consumed, frees that, and brings more. So
 * content of any size can be read through a few megabytes.
 */
export class ScantRoom {
  readonly #space: CacheSpace
  readonly #holder: Holder
  readonly #parked = new Map<BagStream, (step: Step) => void>()

  constructor(space: CacheSpace, holder: Holder) {
    this.#space = space
    this.#holder = holder
  }

  /** Reserves room for a write; resolves false, with nothing reserved, when the stream was stopped. */
  async makeRoom(stream: BagStream, bytes: number): Promise<boolean> {
    const isRoomy = await this.#space.reserve(bytes)
    // Where no room can be made the write is tried all the same: the floor is ours, not the disk's.
    if (!isRoomy && this.#holder.held() + bytes > SCANT_BYTES) await this.#step(stream)
    if (stream.stopped) this.#space.adjust(-bytes)
    return !stream.stopped
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

  async #step(stream: BagStream): Promise<Step> {
    const now = this.#tryStep(stream)
    if (now !== 'later' || stream.stopped) return now
    const stopped = (): void => this.#parked.get(stream)?.('none')
    stream.signal.addEventListener('abort', stopped, { once: true })
    const step = await new Promise<Step>((resolve) => {
      this.#parked.set(stream, resolve)
    })
    this.#parked.delete(stream)
    stream.signal.removeEventListener('abort', stopped)
    return step
  }

  #tryStep(stream: BagStream): Step {
    const held = this.#holder.held()
    if (held === 0) return 'none'
    const { position } = stream
    const waiting = this.#holder.needs().filter((need) => need.position >= position)
    if (waiting.length === 0) return 'later'
    // Somebody may wait for bytes on both sides of the position: those before it stay.
    const keepFrom = Math.min(position, ...waiting.map(({ from }) => from))
    if (position - keepFrom > SCANT_BYTES || position - keepFrom >= held) return 'none'
    this.#holder.dropExcept(keepFrom, position)
    return 'made'
  }
}
