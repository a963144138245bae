import type { DriveStatus } from '../control/protocol.ts'
import { transfersOf, TransferSpeeds } from '../control/transfer-speeds.ts'
import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import { makeView } from './make-view.ts'
import type { Sighting } from './sighting.ts'
import { TrafficHistory } from './traffic-history.ts'
import type { PageView } from './view.ts'
import type { WatchedDrive } from './watched-drive.ts'

const LOOK_EVERY_MS = 1_000
/** A page that does not show asks more seldom. */
const VIEWED_MS = 15_000

/** Looks at a drive every second, for as long as a page may be open, and puts into words what it sees. */
export class Watcher {
  readonly #drive: WatchedDrive
  readonly #clock: Clock
  readonly #speeds = new TransferSpeeds()
  readonly #history = new TrafficHistory()
  #sighting: Sighting
  #viewedAtMs = -Infinity
  /** Looks follow each other: the last one ends last. */
  #looking: Promise<void> = Promise.resolve()

  constructor(deps: { readonly drive: WatchedDrive; readonly clock: Clock }) {
    this.#drive = deps.drive
    this.#clock = deps.clock
    this.#sighting = { ...this.#about(), outbox: [], trash: [] }
  }

  /** Goes on until the signal is aborted; the history needs it, also while no page is open. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#look()
      await this.#clock.sleep(LOOK_EVERY_MS, signal).catch(() => undefined)
    }
  }

  /** How things are; `anew` after something was done. */
  async view({ anew }: { readonly anew: boolean }): Promise<PageView> {
    const wasViewed = this.#isViewed()
    this.#viewedAtMs = this.#clock.now()
    // What only a page shows was not looked at since the last one was closed.
    if (anew || !wasViewed) await this.#look()
    const [history, speeds] = [this.#history, this.#speeds]
    return makeView(this.#sighting, { history, speeds }, this.#clock.now())
  }

  #look(): Promise<void> {
    this.#looking = this.#looking.then(() => this.#lookNow())
    return this.#looking
  }

  async #lookNow(): Promise<void> {
    try {
      const status = await this.#drive.status()
      const atMs = this.#clock.now()
      this.#history.note(status, atMs)
      this.#speeds.note(status === undefined ? [] : transfersOf(status), atMs)
      const lists = await this.#lists(status)
      this.#sighting = { ...this.#about(), ...(status === undefined ? {} : { status }), ...lists }
    } catch (error) {
      if (!(error instanceof DriveError)) throw error
      this.#history.note(undefined, this.#clock.now())
      this.#speeds.note([], this.#clock.now())
      this.#sighting = {
        ...this.#about(),
        trouble: error,
        outbox: [],
        trash: [],
      }
    }
  }

  #about(): Pick<Sighting, 'mountpoint' | 'mountAgain'> {
    const { mountpoint } = this.#drive
    return { mountpoint, mountAgain: this.#drive.mountAgain() }
  }

  async #lists(status: DriveStatus | undefined): Promise<Pick<Sighting, 'outbox' | 'trash'>> {
    if (!this.#isViewed()) return { outbox: status?.outbox ?? [], trash: [] }
    const outbox = status === undefined ? await this.#drive.outbox() : status.outbox
    return { outbox, trash: await this.#drive.trash() }
  }

  #isViewed(): boolean {
    return this.#clock.now() - this.#viewedAtMs < VIEWED_MS
  }
}
