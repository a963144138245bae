import { statfs } from 'node:fs/promises'
import { platform } from 'node:os'
import { listMounts } from '../disk/find-mount.ts'
import { systemClock } from '../domain/clock.ts'
import { deferred } from '../domain/deferred.ts'
import { systemErrorCode } from '../domain/errors.ts'
import type { Mount } from '../disk/mountinfo.ts'
import type { Logger } from '../domain/logger.ts'
import { unmountPath } from './unmount.ts'

const WATCH_MS = 1_000

interface WatchSettings {
  /** Absolute path at which it was mounted. */
  readonly mountpoint: string
  /** True when the kernel has ended the connection, which `umount -f` does also where programs use the mount. */
  readonly isCutOff: () => Promise<boolean>
}

/** Looks whether a drive is still mounted: the user may unmount with fusermount or umount, and no message tells of that. */
export class MountWatch {
  readonly #log: Logger
  readonly #settings: WatchSettings
  readonly #gone = deferred()
  /** The mount, once it was seen. When a directory above it is renamed, it goes along and has another path. */
  #own: Pick<Mount, 'id' | 'device'> | undefined
  #mountpoint: string
  #tellMoved: ((mountpoint: string) => void) | undefined

  constructor(log: Logger, settings: WatchSettings) {
    this.#log = log
    this.#settings = settings
    this.#mountpoint = settings.mountpoint
  }

  /** Resolves when the mount is gone. */
  get gone(): Promise<void> {
    return this.#gone.promise
  }

  /** Absolute path at which the drive was seen last. */
  get mountpoint(): string {
    return this.#mountpoint
  }

  /** `tell` gets each new path of the drive. */
  onMoved(tell: (mountpoint: string) => void): void {
    this.#tellMoved = tell
  }

  /** To be called once it is mounted. */
  start(): void {
    this.look()
  }

  /** Looks now, and from time to time while it is there. */
  look(): void {
    this.#look().catch((error: unknown) => {
      this.#log.warn({ error: String(error) }, 'The mount table cannot be read.')
      this.#lookLater()
    })
  }

  #lookLater(): void {
    systemClock.after(WATCH_MS, () => {
      this.look()
    })
  }

  /** Absolute path at which the drive is mounted now, dead or alive; undefined when it is not. */
  async where(): Promise<string | undefined> {
    return (await this.#find())?.mountpoint
  }

  /**
   * The kernel gives the numbers of a mount that is gone to the next one, which may be the drive of another process. As
   * long as the connection lasts, they are this drive's. So that is looked at after the table was read. Once it has ended,
   * they are this drive's only where it was seen last.
   */
  async #find(): Promise<{ readonly mountpoint: string; readonly isCutOff: boolean } | undefined> {
    const mountpoint = platform() === 'linux' ? await this.#findInTable() : this.#mountpoint
    if (mountpoint === undefined) return undefined
    if (await this.#settings.isCutOff()) {
      const isOwn = mountpoint === this.#mountpoint && (await isDead(mountpoint))
      return isOwn ? { mountpoint, isCutOff: true } : undefined
    }
    if (mountpoint !== this.#mountpoint) {
      this.#mountpoint = mountpoint
      this.#tellMoved?.(mountpoint)
    }
    return { mountpoint, isCutOff: false }
  }

  async #findInTable(): Promise<string | undefined> {
    const drives = (await listMounts()).filter(({ type }) => type === 'fuse.bagfs')
    const own = this.#own
    const found =
      own === undefined
        ? drives.findLast(({ mountpoint }) => mountpoint === this.#mountpoint)
        : drives.find(({ id, device }) => id === own.id && device === own.device)
    this.#own ??= found
    return found?.mountpoint
  }

  async #look(): Promise<void> {
    const found = await this.#find()
    if (found?.isCutOff === false) {
      this.#lookLater()
      return
    }
    if (found !== undefined) await this.#takeDeadAway(found.mountpoint)
    this.#gone.resolve()
  }

  /** Programs that use it get errors already. */
  async #takeDeadAway(mountpoint: string): Promise<void> {
    this.#log.warn({}, 'The kernel has cut the drive off (umount -f): it leaves.')
    await unmountPath(mountpoint, { lazy: true }).catch((error: unknown) => {
      this.#log.warn({ error: String(error) }, 'The dead mount stays.')
    })
  }
}

/** True of a mount whose connection has ended; a drive of another process that took its place answers. */
function isDead(mountpoint: string): Promise<boolean> {
  return statfs(mountpoint).then(
    () => false,
    (error: unknown) => systemErrorCode(error) === 'ENOTCONN',
  )
}
