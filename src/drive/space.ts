import type { Clock } from '../domain/clock.ts'
import { DriveError, localDiskFull } from '../domain/errors.ts'
import type { Intent } from '../domain/intent.ts'
import type { Logger } from '../domain/logger.ts'
import type { Account } from '../domain/record.ts'
import type { DriveService } from '../service/drive-service.ts'
import type { SpaceReport } from './attributes.ts'
import { RoomGroup, type Room, type RoomHolder } from './room.ts'

interface SpaceDeps {
  readonly service: Pick<DriveService, 'getAccount'>
  readonly intents: () => readonly Intent[]
  /** True while the local disk has no room but for sending what waits. */
  readonly isDiskShort: () => boolean
  readonly clock: Clock
  readonly log: Logger
}

/**
 * What the account can still take: `space_left` less what waits in the outbox and what is being
 * written. Without an answer of the service nothing is refused.
 */
export class Space {
  readonly #deps: SpaceDeps
  readonly #ttlMs: number
  #account: (Account & { readonly askedAtMs: number }) | undefined
  #asking: Promise<void> | undefined
  #triedAtMs = 0
  #waiting: number | undefined
  /** Those that hold something. */
  readonly #groups = new Set<RoomGroup>()

  constructor(deps: SpaceDeps, settings: { readonly ttlMs: number; readonly account?: Account }) {
    this.#deps = deps
    this.#ttlMs = settings.ttlMs
    if (settings.account !== undefined) {
      this.#account = { ...settings.account, askedAtMs: deps.clock.now() }
    }
  }

  /** To be called when the outbox changed. */
  outboxChanged(): void {
    this.#waiting = undefined
  }

  /** Room for content that is sent by itself; `name` tells what it is called now. */
  room(name: () => string | undefined): Room {
    return new RoomGroup(this, name).room()
  }

  /** Told by a group that it holds more, or less. */
  changed(group: RoomGroup): void {
    if (group.bytes === 0) this.#groups.delete(group)
    else this.#groups.add(group)
  }

  /** What holds room that no intent counts, the largest first. */
  holders(): readonly RoomHolder[] {
    return Array.from(this.#groups, ({ holder }) => holder).sort((a, b) => b.bytes - a.bytes)
  }

  /** True when `bytes` more (of a group) fit by what was last heard. */
  fits(bytes: number, group?: RoomGroup): boolean {
    if (bytes > 0 && this.#deps.isDiskShort()) return false
    if (bytes > 0) this.#renew()
    const free = this.freeFor(group)
    return bytes <= 0 || free === undefined || bytes <= free
  }

  /**
   * Throws `no-space` when `bytes` more do not fit, after asking the service once more, and
   * `local-disk-full` while this machine cannot take them.
   */
  async check(bytes: number, group?: RoomGroup): Promise<void> {
    if (this.fits(bytes, group)) return
    if (this.#deps.isDiskShort()) throw localDiskFull('New content cannot be staged')
    await this.ask()
    if (this.fits(bytes, group)) return
    throw new DriveError('no-space', 'The account has no room for this content.', {
      hint: 'Delete something from the account, or get more space.',
    })
  }

  /** For `df`; undefined before the service has ever answered. */
  async report(): Promise<SpaceReport | undefined> {
    if (this.#account === undefined) await this.ask()
    else this.#renew()
    const free = this.freeFor(undefined)
    if (this.#account === undefined || free === undefined) return undefined
    return { capacity: this.#account.capacity, free: Math.max(free, 0) }
  }

  /** Bytes that a group, or others, may still take by what was last heard; undefined before that. */
  freeFor(group: RoomGroup | undefined): number | undefined {
    if (this.#account === undefined) return undefined
    this.#waiting ??= waitingBytes(this.#deps.intents(), this.#account.askedAtMs)
    let held = 0
    for (const each of this.#groups) if (each === group || each.isCounted()) held += each.bytes
    return this.#account.spaceLeft - this.#waiting - held
  }

  /** Asks again in the background when the last question is old, whatever came of it. */
  #renew(): void {
    const now = this.#deps.clock.now()
    if (now - Math.max(this.#account?.askedAtMs ?? 0, this.#triedAtMs) <= this.#ttlMs) return
    this.ask().catch((error: unknown) => {
      this.#deps.log.debug({ error: String(error) }, 'The space was not told.')
    })
  }

  /** Asks the service now, one request at a time; a failure leaves what was known. */
  async ask(): Promise<void> {
    this.#asking ??= this.#request().finally(() => {
      this.#asking = undefined
    })
    await this.#asking
  }

  async #request(): Promise<void> {
    const askedAtMs = this.#deps.clock.now()
    this.#triedAtMs = askedAtMs
    try {
      this.#account = { ...(await this.#deps.service.getAccount()), askedAtMs }
      this.#waiting = undefined
    } catch (error) {
      this.#deps.log.debug({ error: String(error) }, 'The service did not tell the space.')
    }
  }
}

/** Bytes of puts that the account's figure does not count yet. */
function waitingBytes(intents: readonly Intent[], askedAtMs: number): number {
  let bytes = 0
  for (const intent of intents) {
    if (intent.kind !== 'put' || intent.phase === 'local') continue
    if (intent.confirmedAtMs !== undefined && intent.confirmedAtMs < askedAtMs) continue
    bytes += intent.content.length ?? 0
  }
  return bytes
}
