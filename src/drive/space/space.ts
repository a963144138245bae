import type { Clock } from '../../domain/clock.ts'
import { DriveError, localDiskFull } from '../../domain/errors.ts'
import type { Intent } from '../../intents/intent.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Account } from '../../domain/record.ts'
import type { StorageService } from '../../service/storage-service.ts'
import type { SharedRoom } from '../../content/shared-room.ts'
import { RoomGroup, type RefusedChanges, type Room, type RoomHolder } from './room.ts'
import { WaitingBytes, type AccountThen } from './waiting-bytes.ts'

/** What `df` tells, in bytes. */
export interface SpaceReport {
  readonly capacity: number
  readonly free: number
}

/** A person who asks how full the account is waits no longer for the service. */
const CATCH_UP_MS = 500

interface SpaceDeps {
  readonly service: Pick<StorageService, 'getAccount'>
  readonly intents: () => readonly Intent[]
  /** True while the local disk has no room but for sending what waits. */
  readonly isDiskShort: () => boolean
  readonly disk: Pick<SharedRoom, 'make' | 'noteWritten'>
  readonly clock: Clock
  readonly log: Logger
}

/** What refused changes, and tells for how long it would do so again. */
interface Refusing {
  readonly refused: () => RefusedChanges | undefined
}

/**
 * What the account can still take: `space_left` less what waits in the outbox and what is being
 * written. What cannot be sent as things are takes no room from others. Without an answer of the service
 * nothing is refused.
 */
export class Space {
  readonly #deps: SpaceDeps
  readonly #ttlMs: number
  #account: AccountThen | undefined
  #asking: Promise<void> | undefined
  /** Begins when `#asking` has ended. */
  #askingNext: Promise<void> | undefined
  #triedAtMs = 0
  /** Something was stored or deleted after the last question: its answer does not count it. */
  #isBehind = false
  #waiting: WaitingBytes | undefined
  /** Puts that were stored and have left the outbox, and that the last answer does not count yet. */
  #stored: Intent[] = []
  /** Those that may hold something. */
  readonly #groups = new Set<RoomGroup>()
  readonly #refusing = new Set<Refusing>()

  constructor(deps: SpaceDeps, settings: { readonly ttlMs: number; readonly account?: Account }) {
    this.#deps = deps
    this.#ttlMs = settings.ttlMs
    if (settings.account !== undefined) {
      this.#account = { ...settings.account, askedAtMs: deps.clock.now() }
    }
  }

  get isDiskShort(): boolean {
    return this.#deps.isDiskShort()
  }

  /** To be called as the listeners of the outbox are. */
  outboxChanged(before: Intent | undefined, after: Intent | undefined): void {
    this.#isBehind = true
    const isStored = before?.kind === 'put' && before.phase === 'confirmed'
    // It counts as it did.
    if (isStored && after === undefined) this.#stored.push(before)
    else if (after !== undefined) this.#waiting?.set(after)
    else if (before !== undefined) this.#waiting?.delete(before)
  }

  /** Room for content that is sent by itself; `name` tells what it is called now. */
  room(name: () => string | undefined): Room {
    return new RoomGroup(this, name).room()
  }

  /** Told by a group that it holds more, or less. */
  changed(group: RoomGroup): void {
    if (group.isInUse) this.#groups.add(group)
    else this.#groups.delete(group)
  }

  /** Told by a group that programs wrote so many bytes more. */
  wrote(bytes: number): void {
    this.#deps.disk.noteWritten(bytes)
  }

  /** Gives up cached and deleted content, so that the local disk takes so many bytes; true when anything went. */
  async makeDiskRoom(bytes: number): Promise<boolean> {
    return this.#deps.disk.make(bytes)
  }

  /** To be called when changes were refused, so that people are told for as long as it is so. */
  noteRefusal(refusing: Refusing): void {
    this.#refusing.add(refusing)
  }

  /** Folders that refused changes and would do so again. */
  refused(): readonly RefusedChanges[] {
    return [...this.#refusing].flatMap((each) => {
      const refused = each.refused()
      if (refused === undefined) this.#refusing.delete(each)
      return refused ?? []
    })
  }

  /** What holds room that no intent counts, the largest first. */
  holders(): readonly RoomHolder[] {
    return [...this.#groups]
      .filter((group) => !group.isWaiting())
      .map(({ holder }) => holder)
      .filter(({ bytes }) => bytes > 0)
      .sort((a, b) => b.bytes - a.bytes)
  }

  /** True when `bytes` more (of a group) fit by what was last heard. */
  fits(bytes: number, group?: RoomGroup): boolean {
    if (bytes > 0 && this.isDiskShort) return false
    if (bytes > 0) this.#renew()
    const free = this.freeFor(group)
    return bytes <= 0 || free === undefined || bytes <= free
  }

  /** True when all that a group takes, and `bytes` more, fit by what was last heard. */
  leaves(group: RoomGroup | undefined, bytes: number): boolean {
    this.#renew()
    const free = this.freeFor(group)
    return free === undefined || bytes <= free
  }

  /**
   * Throws `no-space` when `bytes` more do not fit, after asking the service once more, and
   * `local-disk-full` while this machine cannot take them.
   */
  async check(bytes: number, group?: RoomGroup): Promise<void> {
    if (this.fits(bytes, group)) return
    if (this.isDiskShort) throw localDiskFull('New content cannot be staged')
    await this.ask()
    if (this.fits(bytes, group)) return
    throw new DriveError('no-space', 'The account has no room for this content.', {
      hint: 'Delete something from the account, or get more space.',
    })
  }

  /** Of the account in bytes, after asking for it when it was not told yet; undefined where that is not answered. */
  async capacity(): Promise<number | undefined> {
    if (this.#account === undefined) await this.ask()
    return this.#account?.capacity
  }

  /** For `df`; undefined before the service has ever answered. */
  async report(): Promise<SpaceReport | undefined> {
    await (this.#account === undefined ? this.ask() : this.catchUp())
    return this.lastReport()
  }

  /** Asks the service when the last answer may be wrong by now, and waits a moment for a newer one. */
  async catchUp(): Promise<void> {
    // The caller that began a question waits for it: a service that hangs holds up no other one.
    if (this.#asking !== undefined || !(this.#isBehind || this.#isDue())) return
    const { clock } = this.#deps
    let cancel = (): void => undefined
    const enough = new Promise<void>((resolve) => {
      cancel = clock.after(CATCH_UP_MS, resolve)
    })
    await Promise.race([this.ask(), enough])
    cancel()
  }

  /** As `report`, by what was heard last, which is asked for again in the background when it is old. */
  lastReport(): SpaceReport | undefined {
    this.#renew()
    const free = this.freeFor(undefined)
    if (this.#account === undefined || free === undefined) return undefined
    return { capacity: this.#account.capacity, free: Math.max(free, 0) }
  }

  /** Bytes that a group, or others, may still take by what was last heard; undefined before that. */
  freeFor(group: RoomGroup | undefined): number | undefined {
    if (this.#account === undefined) return undefined
    const { spaceLeft } = this.#account
    this.#waiting ??= this.#countWaiting(this.#account)
    let held = 0
    for (const each of this.#groups) {
      const { bytes } = each
      if (each !== group && each.isWaiting()) continue
      if (each === group || (bytes <= spaceLeft && each.isCounted())) held += bytes
    }
    return spaceLeft - this.#waiting.sum - held
  }

  #countWaiting(account: AccountThen): WaitingBytes {
    const waiting = new WaitingBytes(account)
    for (const intent of this.#deps.intents()) waiting.set(intent)
    for (const intent of this.#stored) waiting.set(intent)
    return waiting
  }

  /** Asks again in the background when the last question is old, whatever came of it. */
  #renew(): void {
    if (this.#asking !== undefined || !this.#isDue()) return
    this.ask().catch((error: unknown) => {
      this.#deps.log.debug({ error: String(error) }, 'The space was not told.')
    })
  }

  #isDue(): boolean {
    const lastMs = Math.max(this.#account?.askedAtMs ?? 0, this.#triedAtMs)
    return this.#deps.clock.now() - lastMs > this.#ttlMs
  }

  /**
   * Asks the service, one request at a time, and by one that is begun after this call: an answer from before knows nothing of
   * what was stored meanwhile, and is wrong once that is in no intent any more. A failure leaves what was known.
   */
  async ask(): Promise<void> {
    if (this.#asking === undefined) return this.#begin()
    this.#askingNext ??= this.#asking.then(() => {
      this.#askingNext = undefined
      return this.#begin()
    })
    return this.#askingNext
  }

  #begin(): Promise<void> {
    this.#asking ??= this.#request().finally(() => {
      this.#asking = undefined
    })
    return this.#asking
  }

  async #request(): Promise<void> {
    const askedAtMs = this.#deps.clock.now()
    this.#triedAtMs = askedAtMs
    this.#isBehind = false
    try {
      this.#account = { ...(await this.#deps.service.getAccount()), askedAtMs }
      this.#waiting = undefined
      this.#stored = this.#stored.filter(({ confirmedAtMs = 0 }) => confirmedAtMs >= askedAtMs)
    } catch (error) {
      this.#deps.log.debug({ error: String(error) }, 'The service did not tell the space.')
    }
  }
}
