import { DriveError, localDiskFull } from '../../domain/errors.ts'

/** What holds room of the account, for people who ask where it went. */
export interface RoomHolder {
  readonly name: string
  readonly bytes: number
}

/** A folder that takes no changes, because its new version does not fit beside the old one. */
export interface RefusedChanges {
  readonly name: string
  /** What its new version takes. */
  readonly neededBytes: number
  /** What is left for it. */
  readonly leftBytes: number
}

/** What a group takes beside its rooms: content that is at the service already and is sent once more. */
export interface Carried {
  readonly bytes: () => number
  /** Counts exactly what `bytes` answers a bound of. */
  readonly recount: () => void
}

/** For so much the account is not asked first: a program that cuts small files does not wait for the service. */
const ALWAYS_ALLOWED_BYTES = 1024 ** 3

/** Where rooms are added up. */
interface Ledger {
  /** True while the local disk takes nothing new. */
  readonly isDiskShort: boolean
  /** Of the account in bytes, after asking for it when it was not told yet; undefined where that is not answered. */
  capacity(): Promise<number | undefined>
  changed(group: RoomGroup): void
  wrote(bytes: number): void
  makeDiskRoom(bytes: number): Promise<boolean>
  fits(bytes: number, group: RoomGroup): boolean
  check(bytes: number, group: RoomGroup): Promise<void>
}

/** Contents of one name that are sent together, or not at all: a file of the root, or a folder. */
export class RoomGroup {
  readonly #ledger: Ledger
  readonly #name: () => string | undefined
  /** False while it cannot be sent: then it takes no room from others. */
  readonly isCounted: () => boolean
  /** True while what waits in the outbox is all of it: then it is counted there. */
  readonly isWaiting: () => boolean
  readonly #carried: Carried | undefined
  #bytes = 0
  #stands = false

  /** `name` tells what it is called now, for people. */
  constructor(
    ledger: Ledger,
    name: () => string | undefined,
    options: {
      readonly isCounted?: () => boolean
      readonly isWaiting?: () => boolean
      readonly carried?: Carried
    } = {},
  ) {
    this.#ledger = ledger
    this.#name = name
    this.isCounted = options.isCounted ?? (() => true)
    this.isWaiting = options.isWaiting ?? (() => false)
    this.#carried = options.carried
  }

  /** Of all its rooms, and what is carried. */
  get bytes(): number {
    return this.#bytes + (this.#stands ? (this.#carried?.bytes() ?? 0) : 0)
  }

  /** True while it may take room. */
  get isInUse(): boolean {
    return this.#stands || this.#bytes > 0
  }

  /** What is carried counts from now on, or does no more. */
  stand(stands: boolean): void {
    this.#stands = stands
    this.#ledger.changed(this)
  }

  get holder(): RoomHolder {
    return { name: this.#name() ?? '', bytes: this.#bytes }
  }

  /** Room for one content more; it holds nothing yet. */
  room(): Room {
    return new Room(this)
  }

  get isDiskShort(): boolean {
    return this.#ledger.isDiskShort
  }

  /** More than this no content can ever take, in bytes. */
  async limit(): Promise<number> {
    return (await this.#ledger.capacity()) ?? Infinity
  }

  grow(bytes: number): void {
    this.#bytes += bytes
    this.#ledger.changed(this)
    if (bytes > 0) this.#ledger.wrote(bytes)
  }

  makeDiskRoom(bytes: number): Promise<boolean> {
    return this.#ledger.makeDiskRoom(bytes)
  }

  /** True when so many bytes more fit by what was last heard. */
  fits(bytes: number): boolean {
    return this.#ledger.fits(bytes, this)
  }

  /** Throws `no-space` when so many bytes more do not fit, after asking the service once more. */
  async check(bytes: number): Promise<void> {
    if (!this.fits(bytes)) this.#carried?.recount()
    await this.#ledger.check(bytes, this)
  }
}

/**
 * What one content takes of the account's room until an intent counts it, or it goes: exactly what was
 * taken is given back, whatever became of the content meanwhile.
 */
export class Room {
  readonly #group: RoomGroup
  #isOver = false
  #bytes = 0

  constructor(group: RoomGroup) {
    this.#group = group
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Takes room for so many bytes in all, unchecked. After `giveBack` they are of the local disk only. */
  hold(bytes: number): void {
    const growth = bytes - this.#bytes
    this.#bytes = bytes
    if (!this.#isOver && growth !== 0) this.#group.grow(growth)
  }

  /** Gives all back for good: an intent counts the content now, or it will never be sent. */
  giveBack(): void {
    if (!this.#isOver && this.#bytes !== 0) this.#group.grow(-this.#bytes)
    this.#isOver = true
  }

  /** True while the local disk takes nothing new, not even what makes no content longer. */
  get isDiskShort(): boolean {
    return this.#group.isDiskShort
  }

  /** See `Space.makeDiskRoom`. */
  makeDiskRoom(bytes: number): Promise<boolean> {
    return this.#group.makeDiskRoom(bytes)
  }

  /** Throws `too-large` for a length that the account could not have if it were empty. */
  async refuseBeyondLimit(length: number): Promise<void> {
    if (length <= ALWAYS_ALLOWED_BYTES || length <= (await this.#group.limit())) return
    throw new DriveError('too-large', 'The account cannot have a file of this length.')
  }

  /** True when so many bytes in all fit by what was last heard. */
  fits(bytes: number): boolean {
    const growth = bytes - this.#bytes
    return this.#isOver ? growth <= 0 || !this.isDiskShort : this.#group.fits(growth)
  }

  /**
   * Throws `no-space` when so many bytes in all do not fit, after asking the service once more, and
   * `local-disk-full` while this machine cannot take them.
   */
  async check(bytes: number): Promise<void> {
    if (this.fits(bytes)) return
    if (this.#isOver) throw localDiskFull('New content cannot be staged')
    await this.#group.check(bytes - this.#bytes)
  }
}
