import type { BagCache } from '../content/bag-cache.ts'
import { backoffMs } from '../domain/backoff.ts'
import type { Clock } from '../domain/clock.ts'
import { DriveError, goneFile } from '../domain/errors.ts'
import { withoutZip } from '../domain/folder-names.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { Entry } from '../namespace/entry.ts'
import type { Listing } from '../namespace/listing.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { Pin, PinsStore } from '../state/pins-store.ts'
import type { FetchAhead } from './fetch-ahead.ts'
import { findTop, type Walk } from './find-top.ts'
import type { Contents } from './root/contents.ts'
import type { Entries } from './root/entries.ts'
import type { DriveSettings } from './settings.ts'
import type { Nodes } from './tree/nodes.ts'
import type { RootNames } from './root/root-names.ts'

interface PinsDeps {
  readonly pinned: PinsStore
  readonly nodes: Nodes
  readonly rootNames: RootNames
  readonly entries: Entries
  readonly contents: Contents
  readonly fetchAhead: FetchAhead
  readonly cache: BagCache
  readonly listing: Pick<Listing, 'current' | 'keep' | 'onChange'>
  readonly outbox: Pick<Outbox, 'onChange'>
  readonly clock: Clock
  readonly log: Logger
}

/** What is missing to keep pinned content here: a larger cache, or room on the local disk. */
type Lack = 'cache-size' | 'disk'

/** How it is with a name that is pinned. */
export interface PinReport {
  /** Of the root, as it shows. */
  readonly name: string
  /** As far as it is known; the bytes of it that are on this machine. */
  readonly bytes: number
  readonly hereBytes: number
  /**
   * - `here`: all of it is on this machine
   * - `coming`: it is being fetched, or is next
   * - `waits`: fetching it failed, and is tried again
   * - `no-room`: it is not fetched, since `lacks` says
   * - `missing`: nothing has the name
   */
  readonly state: 'here' | 'coming' | 'waits' | 'no-room' | 'missing'
  readonly lacks?: Lack
  /** Why it waits. */
  readonly reason?: string
}

interface Failure {
  readonly times: number
  readonly atMs: number
  readonly message: string
}

/** Changes come in bursts. */
const LOOK_AFTER_MS = 50
/** A listing that takes long is asked for so many times as seldom. */
const LISTING_SHARE = 60

/**
 * Keeps what is pinned on this machine: fetches it ahead, behind all that programs wait for, and follows the name to
 * another version. The cache is told what it is to keep.
 */
export class Pins {
  readonly #deps: PinsDeps
  readonly #settings: Pick<DriveSettings, 'pins' | 'uploads'>
  readonly #fetches = new Map<BagId, { readonly stop: AbortController; done: Promise<void> }>()
  readonly #failures = new Map<BagId, Failure>()
  #lacks: ReadonlyMap<BagId, Lack> = new Map()
  #looking: Promise<void> = Promise.resolve()
  #cancelLook: (() => void) | undefined
  #cancelNext: (() => void) | undefined
  #stops: readonly (() => void)[] = []
  #isRunning = false

  constructor(deps: PinsDeps, settings: Pick<DriveSettings, 'pins' | 'uploads'>) {
    this.#deps = deps
    this.#settings = settings
  }

  /** To be called once there is a listing. */
  start(): void {
    const { pinned, listing, outbox } = this.#deps
    const soon = (): void => {
      this.#lookSoon()
    }
    this.#isRunning = true
    this.#stops = [pinned, listing, outbox].map((each) => each.onChange(soon))
    soon()
  }

  /** Gives up what is being fetched; what came of it stays. */
  async close(): Promise<void> {
    this.#isRunning = false
    for (const stop of this.#stops) stop()
    this.#cancelLook?.()
    this.#cancelNext?.()
    await this.#looking
    const fetches = [...this.#fetches.values()]
    for (const { stop } of fetches) stop.abort(unwanted())
    await Promise.all(fetches.map(({ done }) => done))
  }

  /**
   * Pins the file or folder of the root that a path is, or is in. Resolves when that is written down, with how it is
   * with it now. Rejects `usage` for the whole drive and for what the drive makes up.
   */
  async pin(names: readonly string[], walk: Walk): Promise<PinReport> {
    if (names.length === 0) {
      throw new DriveError('usage', 'A drive cannot be pinned as a whole.', {
        hint: 'Pin the files and folders in it, or fetch all of it once: bagfs warmup.',
      })
    }
    const { name } = await findTop(names, walk, this.#deps.nodes)
    if (name === undefined) throw goneFile()
    await this.#deps.pinned.add(name)
    await this.#lookNow()
    return this.#tell({ name })
  }

  /** Rejects `not-found` when it is not pinned. Answers the name that was. */
  async unpin(names: readonly string[]): Promise<string> {
    const { pinned, entries } = this.#deps
    const [typed = ''] = names
    const name = pinned.has(typed) ? typed : (entries.tree().resolve(typed)?.shown ?? typed)
    if (!(await pinned.remove(name))) {
      throw new DriveError('not-found', `${typed === '' ? 'The drive' : typed} is not pinned.`, {
        hint: 'What is: bagfs pin --list.',
      })
    }
    await this.#lookNow()
    return name
  }

  /** In the order in which they were pinned. */
  report(): readonly PinReport[] {
    return this.#deps.pinned.all().map((pin) => this.#tell(pin))
  }

  /** How it is with a name, if that is pinned. */
  of(name: string): PinReport | undefined {
    const pin = this.#deps.pinned.all().find((each) => each.name === name)
    return pin && this.#tell(pin)
  }

  /** What pinned content takes of the cache beside these bags, in bytes. */
  bytesBeside(bagIds: ReadonlySet<BagId>): number {
    const others = new Set(this.#deps.pinned.all().flatMap(({ bagId }) => bagId ?? []))
    let bytes = 0
    for (const bagId of others) {
      if (!bagIds.has(bagId)) bytes += this.#deps.cache.heldOf(bagId).bytes
    }
    return bytes
  }

  /** What failed for want of the service is tried at once. */
  serviceIsBack(): void {
    this.#failures.clear()
    this.#lookSoon()
  }

  #lookSoon(): void {
    if (!this.#isRunning) return
    this.#cancelLook ??= this.#deps.clock.after(LOOK_AFTER_MS, () => {
      this.#cancelLook = undefined
      this.#lookNow().catch((error: unknown) => {
        this.#deps.log.error({ error: String(error) }, 'What is pinned could not be looked at.')
      })
    })
  }

  #lookNow(): Promise<void> {
    const look = this.#looking.then(() => this.#look())
    this.#looking = look.catch(() => undefined)
    return look
  }

  async #look(): Promise<void> {
    if (!this.#isRunning) return
    const { pinned, cache } = this.#deps
    const pins = this.#follow(pinned.all())
    pinned.replace(pins)
    const wanted = this.#wanted(pins)
    cache.pin(pins.flatMap(({ bagId }) => bagId ?? []))
    for (const [bagId, { stop }] of this.#fetches) if (!wanted.has(bagId)) stop.abort(unwanted())
    for (const bagId of this.#failures.keys()) if (!wanted.has(bagId)) this.#failures.delete(bagId)
    this.#lacks = await this.#findLacks(wanted)
    for (const bagId of wanted.keys()) {
      if (!this.#lacks.has(bagId) && this.#isDue(bagId)) this.#fetch(bagId)
    }
    this.#lookAgain(pins.length > 0)
  }

  /** What names mean now. Of two pins that came to have the same name one stays. */
  #follow(pins: readonly Pin[]): readonly Pin[] {
    const followed = new Map<string, Pin>()
    for (const pin of pins) {
      const now = this.#followOne(pin)
      if (now !== undefined && !followed.has(now.name)) followed.set(now.name, now)
    }
    return [...followed.values()]
  }

  /** What was taken away here loses its pin, unless it comes back soon: programs save so. */
  #followOne(pin: Pin): Pin | undefined {
    const { contents, clock, log } = this.#deps
    const { name, bagId, missing } = pin
    const entry = this.#entryOf(pin)
    if (entry !== undefined) {
      const bag = contents.bagOf(entry)
      return { name: entry.shown, ...(bag === undefined ? {} : { bagId: bag.bagId }) }
    }
    if (this.#isBeingWritten(name)) return { name, ...(bagId === undefined ? {} : { bagId }) }
    const { sinceMs, isOurs } = missing ?? { sinceMs: clock.now(), isOurs: false }
    if (Math.abs(clock.now() - sinceMs) < this.#settings.pins.forgetMs) {
      return { ...pin, missing: { sinceMs, isOurs } }
    }
    if (!isOurs) return { name, missing: { sinceMs, isOurs } }
    log.info({ name }, 'What was pinned was deleted here, and is pinned no more.')
    return undefined
  }

  /** What has the name; else the bag that had it, where it shows otherwise: as the newest of its name, or as a folder. */
  #entryOf({ name, bagId, missing }: Pin): Entry | undefined {
    const { entries, contents } = this.#deps
    const tree = entries.tree()
    const shown = tree.resolve(name)
    if (shown !== undefined || bagId === undefined || missing?.isOurs === true) return shown
    return [name, withoutZip(name), `${name}.zip`]
      .flatMap((each) => tree.relatives(each))
      .find((each) => contents.bagOf(each)?.bagId === bagId)
  }

  #isBeingWritten(name: string): boolean {
    return this.#deps.rootNames.named(name)?.hasUnpromised === true
  }

  /** Bags that are pinned and not here, with their sizes in bytes, in the order in which they were pinned. */
  #wanted(pins: readonly Pin[]): ReadonlyMap<BagId, number> {
    const { contents, cache } = this.#deps
    const wanted = new Map<BagId, number>()
    for (const pin of pins) {
      const entry = this.#entryOf(pin)
      const bag = entry && contents.bagOf(entry)
      if (bag !== undefined && !cache.isComplete(bag.bagId)) wanted.set(bag.bagId, bag.bytes)
    }
    return wanted
  }

  async #findLacks(wanted: ReadonlyMap<BagId, number>): Promise<ReadonlyMap<BagId, Lack>> {
    const { cache } = this.#deps
    const lacks = new Map<BagId, Lack>()
    if (wanted.size === 0) return lacks
    let left = cache.stats().maxBytes - this.bytesBeside(new Set(wanted.keys()))
    let onDisk = await cache.attainableBytes()
    for (const [bagId, bytes] of wanted) {
      const missing = Math.max(0, bytes - cache.heldOf(bagId).bytes)
      if (bytes > left) lacks.set(bagId, 'cache-size')
      else if (missing > onDisk) lacks.set(bagId, 'disk')
      else {
        left -= bytes
        onDisk -= missing
      }
    }
    return lacks
  }

  #isDue(bagId: BagId): boolean {
    return !this.#fetches.has(bagId) && this.#waitMs(bagId) <= 0
  }

  /** Until the next try of what failed, in milliseconds. */
  #waitMs(bagId: BagId): number {
    const failure = this.#failures.get(bagId)
    if (failure === undefined) return 0
    const { retryBaseMs: firstMs, retryMaxMs: longestMs } = this.#settings.uploads
    const pauseMs = backoffMs(failure.times - 1, { firstMs, longestMs })
    return failure.atMs + pauseMs - this.#deps.clock.now()
  }

  #fetch(bagId: BagId): void {
    const stop = new AbortController()
    const done = this.#deps.fetchAhead
      .fetch(bagId, { signal: stop.signal, isBehind: true })
      .then(async () => {
        this.#failures.delete(bagId)
        // A mount without the network is to know the version that is here.
        await this.#deps.listing.keep()
      })
      .catch((error: unknown) => {
        if (!stop.signal.aborted) this.#noteFailure(bagId, error)
      })
      .finally(() => {
        this.#fetches.delete(bagId)
        this.#lookSoon()
      })
    this.#fetches.set(bagId, { stop, done })
  }

  #noteFailure(bagId: BagId, error: unknown): void {
    const { clock, log } = this.#deps
    const message = error instanceof Error ? error.message : String(error)
    const times = (this.#failures.get(bagId)?.times ?? 0) + 1
    this.#failures.set(bagId, { times, atMs: clock.now(), message })
    const fields = { bagId, times, error: String(error) }
    const words = 'Pinned content could not be fetched.'
    if (error instanceof DriveError) log.info(fields, words)
    else log.error(fields, words)
  }

  /** Also while no program looks at the drive: the listing tells of new versions. */
  #lookAgain(hasPins: boolean): void {
    this.#cancelNext?.()
    if (!hasPins || !this.#isRunning) return
    const { clock, entries, log } = this.#deps
    const waits = Array.from(this.#failures.keys(), (bagId) => Math.max(0, this.#waitMs(bagId)))
    const next = Math.min(this.#followMs(), ...waits)
    this.#cancelNext = clock.after(next, () => {
      entries
        .fresh()
        .catch((error: unknown) => {
          log.debug({ error: String(error) }, 'Whether what is pinned has changed is not known.')
        })
        .finally(() => {
          this.#lookSoon()
        })
    })
  }

  #followMs(): number {
    const { startedAtMs = 0, receivedAtMs = 0 } = this.#deps.listing.current() ?? {}
    return Math.max(this.#settings.pins.followMs, (receivedAtMs - startedAtMs) * LISTING_SHARE)
  }

  #tell(pin: Pin): PinReport {
    const { name } = pin
    const { contents, cache } = this.#deps
    const entry = this.#entryOf(pin)
    if (entry === undefined && !this.#isBeingWritten(name)) {
      const bytes = pin.bagId === undefined ? 0 : cache.heldOf(pin.bagId).bytes
      return { name, bytes, hereBytes: bytes, state: 'missing' }
    }
    const bag = entry && contents.bagOf(entry)
    if (bag === undefined) {
      const bytes = entry === undefined ? 0 : contents.sizeOf(entry)
      return { name, bytes, hereBytes: bytes, state: 'here' }
    }
    const { bytes, bagId } = bag
    const held = cache.heldOf(bagId)
    if (held.isComplete) return { name, bytes, hereBytes: bytes, state: 'here' }
    return { name, bytes, hereBytes: Math.min(bytes, held.bytes), ...this.#stateOf(bagId) }
  }

  #stateOf(bagId: BagId): Pick<PinReport, 'state' | 'lacks' | 'reason'> {
    const lacks = this.#lacks.get(bagId)
    if (lacks !== undefined) return { state: 'no-room', lacks }
    const failure = this.#failures.get(bagId)
    return failure === undefined ? { state: 'coming' } : { state: 'waits', reason: failure.message }
  }
}

function unwanted(): DriveError {
  return new DriveError('interrupted', 'It is pinned no more.')
}
