import type { Clock } from '../domain/clock.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { TrashItem } from './item.ts'
import { TrashFiles } from './trash-files.ts'

/** What a small item takes of a disk beside its content. */
const ITEM_BYTES = 4096
const TIDY_EVERY_MS = 60_000

/** The disk that the trash shares with the cache. */
export interface SharedDisk {
  /** Bytes that the disk takes until its free-space floor is reached; negative below it. */
  spareBytes(): Promise<number>
  /** Removes the least recently used content of the cache; false when there is none that may go. */
  evictOne(): Promise<boolean>
}

interface TrashDeps {
  readonly clock: Clock
  readonly log: Logger
  /** Without it the trash is only looked at. */
  readonly disk?: SharedDisk
  /** Bags that are on their way back: their time is not over before the service has them. */
  readonly onWayBack?: () => ReadonlySet<BagId>
}

export interface TrashSettings {
  readonly dir: string
  /** How long content is kept; 0 keeps none. */
  readonly keptMs: number
  /** Most bytes that are kept. */
  readonly maxBytes: number
}

export interface TrashReport {
  readonly items: number
  readonly bytes: number
  readonly keptMs: number
  /** Items that had to go before their time, since the drive was mounted. */
  readonly givenUp: number
  /** Bags whose content was not kept when they were deleted, since the drive was mounted. */
  readonly notKept: number
}

/** What was deleted or replaced at the service, on this machine, for a while. The oldest goes first. */
export class Trash {
  readonly #deps: TrashDeps
  readonly #settings: TrashSettings
  readonly #files: TrashFiles
  /** Oldest first. */
  readonly #items = new Map<BagId, TrashItem>()
  readonly #listeners = new Set<() => void>()
  #bytes = 0
  #givenUp = 0
  #notKept = 0
  #cancel: (() => void) | undefined
  #tidying: Promise<void> = Promise.resolve()
  #isClosed = false

  private constructor(
    deps: TrashDeps,
    settings: TrashSettings,
    { files, items }: Awaited<ReturnType<typeof TrashFiles.open>>,
  ) {
    this.#deps = deps
    this.#settings = settings
    this.#files = files
    for (const item of items.toReversed()) this.#set(item)
  }

  /** Takes up what an earlier process kept, as far as it is to be kept now. Rejects `local-io`. */
  static async open(deps: TrashDeps, settings: TrashSettings): Promise<Trash> {
    const trash = new Trash(deps, settings, await TrashFiles.open(settings.dir, deps.log))
    await trash.tidy()
    return trash
  }

  get isOff(): boolean {
    return this.#settings.keptMs === 0
  }

  /** Content that is larger is not kept. */
  get mostBytes(): number {
    return this.#settings.maxBytes - ITEM_BYTES
  }

  get files(): TrashFiles {
    return this.#files
  }

  /** Newest first. */
  items(): readonly TrashItem[] {
    return [...this.#items.values()].reverse()
  }

  get(bagId: BagId): TrashItem | undefined {
    return this.#items.get(bagId)
  }

  /** Calls `listener` after each change. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener)
  }

  report(): TrashReport {
    const { keptMs } = this.#settings
    const counts = { givenUp: this.#givenUp, notKept: this.#notKept }
    return { items: this.#items.size, bytes: this.#bytes, keptMs, ...counts }
  }

  /**
   * True when there is room for so much more, or will be once what is older has given way. Only the cache gives way now: what
   * is to come may fail.
   */
  async canTake(bytes: number): Promise<boolean> {
    const { disk } = this.#deps
    if (disk === undefined || bytes > this.mostBytes) return false
    let spare = await disk.spareBytes()
    while (spare < bytes && (await disk.evictOne())) spare = await disk.spareBytes()
    return spare + this.#bytes >= bytes
  }

  /** Keeps content that is placed already; older content gives way to it. `isNewHere`: it took no room of the disk before. */
  add(item: TrashItem, { isNewHere = false }: { readonly isNewHere?: boolean } = {}): void {
    this.#files.write(item)
    this.#set(item)
    this.#changed()
    const isTight = isNewHere || this.#bytes > this.#settings.maxBytes
    this.#tidySoon(isTight ? 0 : TIDY_EVERY_MS)
  }

  /** What was on its way back is deleted once more: its time begins anew. */
  renew(bagId: BagId): void {
    const item = this.get(bagId)
    if (item !== undefined) this.add({ ...item, deletedAtMs: this.#deps.clock.now() })
  }

  /** Gives up the oldest item for want of room; false when there is none. */
  async giveUpOldest(): Promise<boolean> {
    const [oldest] = this.#items.values()
    if (oldest === undefined) return false
    const { bagId, name, length } = oldest
    this.#givenUp += 1
    this.#deps.log.warn(
      { bagId, name, bytes: length },
      'Given up for want of room: it was in the trash.',
    )
    await this.remove([bagId])
    return true
  }

  noteNotKept(): void {
    this.#notKept += 1
  }

  /** Resolves when these are gone for good. */
  async remove(bagIds: readonly BagId[]): Promise<void> {
    for (const bagId of bagIds) {
      this.#unset(bagId)
      await this.#files.remove(bagId)
    }
    this.#changed()
  }

  /** Removes what was kept long enough, and what there is no room for. One call at a time. */
  async tidy(): Promise<void> {
    const turn = this.#tidying.then(() => this.#tidyNow())
    this.#tidying = turn.catch((error: unknown) => {
      this.#deps.log.warn({ error: String(error) }, 'The trash could not be tidied yet.')
    })
    await turn
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancel?.()
    await this.#tidying
  }

  async #tidyNow(): Promise<void> {
    const { clock, onWayBack } = this.#deps
    const { keptMs, maxBytes } = this.#settings
    const back = onWayBack?.()
    const isOver = ({ bagId, deletedAtMs }: TrashItem): boolean =>
      clock.now() - deletedAtMs >= keptMs && back?.has(bagId) !== true
    await this.remove([...this.#items.values()].filter(isOver).map(({ bagId }) => bagId))
    while (this.#bytes > maxBytes) await this.giveUpOldest()
    await this.#keepFloor()
    if (this.#items.size > 0) this.#tidySoon(TIDY_EVERY_MS)
  }

  /** What can be fetched again goes first. */
  async #keepFloor(): Promise<void> {
    const { disk } = this.#deps
    if (disk === undefined) return
    while (this.#items.size > 0 && (await disk.spareBytes()) < 0) {
      if (!(await disk.evictOne())) await this.giveUpOldest()
    }
  }

  #tidySoon(ms: number): void {
    if (this.#isClosed || this.#deps.disk === undefined) return
    if (ms > 0 && this.#cancel !== undefined) return
    this.#cancel?.()
    this.#cancel = this.#deps.clock.after(ms, () => {
      this.#cancel = undefined
      this.tidy().catch(alreadyLogged)
    })
  }

  #set(item: TrashItem): void {
    this.#unset(item.bagId)
    this.#items.set(item.bagId, item)
    this.#bytes += item.length + ITEM_BYTES
  }

  #unset(bagId: BagId): void {
    const item = this.#items.get(bagId)
    if (item === undefined) return
    this.#items.delete(bagId)
    this.#bytes -= item.length + ITEM_BYTES
  }

  #changed(): void {
    for (const listener of this.#listeners) listener()
  }
}

/** For work that has logged its failure itself. */
const alreadyLogged = (): void => undefined
