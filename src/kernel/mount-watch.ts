import { statfs } from 'node:fs/promises'
import { platform } from 'node:os'
import { listMounts } from '../disk/find-mount.ts'
import { systemClock } from '../domain/clock.ts'
import { deferred } from '../domain/deferred.ts'
import { systemErrorCode } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { unmountPath } from './unmount.ts'

const WATCH_MS = 1_000

interface WatchSettings {
  /** Absolute path. */
  readonly mountpoint: string
  /** True when the kernel has ended the connection, which `umount -f` does also where programs use the mount. */
  readonly isCutOff: () => Promise<boolean>
}

/** Looks whether a drive is still mounted: the user may unmount with fusermount or umount, and no message tells of that. */
export class MountWatch {
  readonly #log: Logger
  readonly #settings: WatchSettings
  readonly #gone = deferred()

  constructor(log: Logger, settings: WatchSettings) {
    this.#log = log
    this.#settings = settings
  }

  /** Resolves when the mount is gone. */
  get gone(): Promise<void> {
    return this.#gone.promise
  }

  /** To be called once it is mounted. */
  start(): void {
    systemClock.after(WATCH_MS, () => {
      this.look()
    })
  }

  /** Looks now, and from time to time while it is there. */
  look(): void {
    this.#look().catch((error: unknown) => {
      this.#log.warn({ error: String(error) }, 'The mount table cannot be read.')
      this.start()
    })
  }

  async isMounted(): Promise<boolean> {
    if (platform() !== 'linux') return true
    const mounts = await listMounts()
    const { mountpoint } = this.#settings
    return mounts.some((each) => each.type === 'fuse.bagfs' && each.mountpoint === mountpoint)
  }

  async #look(): Promise<void> {
    const isCutOff = await this.#settings.isCutOff()
    const isMounted = await this.isMounted()
    if (isMounted && !isCutOff) {
      this.start()
      return
    }
    if (isMounted) await this.#takeDeadAway()
    this.#gone.resolve()
  }

  /** Programs that use it get errors already. A drive of another process may be mounted there by now: that stays. */
  async #takeDeadAway(): Promise<void> {
    const { mountpoint } = this.#settings
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
