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

  /** Absolute path at which the drive is mounted now; undefined when it is not. */
  async where(): Promise<string | undefined> {
    const { mountpoint } = this.#settings
    if (platform() !== 'linux') return mountpoint
    const drives = (await listMounts()).filter(({ type }) => type === 'fuse.bagfs')
    const own = this.#own
    const found =
      own === undefined
        ? drives.findLast((each) => each.mountpoint === mountpoint)
        : drives.find(({ id, device }) => id === own.id && device === own.device)
    this.#own ??= found
    if (found !== undefined && found.mountpoint !== this.#mountpoint) {
      this.#mountpoint = found.mountpoint
      this.#tellMoved?.(found.mountpoint)
    }
    return found?.mountpoint
  }

  async #look(): Promise<void> {
    const isCutOff = await this.#settings.isCutOff()
    const mountpoint = await this.where()
    if (mountpoint !== undefined && !isCutOff) {
      this.#lookLater()
      return
    }
    if (mountpoint !== undefined) await this.#takeDeadAway(mountpoint)
    this.#gone.resolve()
  }

  /** Programs that use it get errors already. A drive of another process may be mounted there by now: that stays. */
  async #takeDeadAway(mountpoint: string): Promise<void> {
    const isDead = await statfs(mountpoint).then(
      () => false,
      (error: unknown) => systemErrorCode(error) === 'ENOTCONN',
    )
    if (!isDead) return
    this.#log.warn({}, 'The kernel has cut the drive off (umount -f): it leaves.')
    await unmountPath(mountpoint, { lazy: true }).catch((error: unknown) => {
      this.#log.warn({ error: String(error) }, 'The dead mount stays.')
    })
  }
}
