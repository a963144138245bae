import { statfs } from 'node:fs/promises'
import { platform } from 'node:os'
import { listMounts } from '../disk/find-mount.ts'
import { systemClock } from '../domain/clock.ts'
import { deferred } from '../domain/deferred.ts'
import { DriveError, systemErrorCode } from '../domain/errors.ts'
import type { Bridge, BridgeDeps, BridgeSettings } from './bridge.ts'
import { BusyPoll } from './busy-poll.ts'
import { fuseOperations } from './operations.ts'
import { FuseDevice } from './fuse-device.ts'
import { PatchedFuse } from './patched-fuse.ts'
import { Replies } from './replies.ts'
import { unmountPath } from './unmount.ts'

const WATCH_MS = 1_000

/** The bridge over libfuse 2, by the fuse-native package. */
export class FuseNativeBridge implements Bridge {
  readonly #deps: BridgeDeps
  readonly #settings: BridgeSettings
  readonly #gone = deferred()
  #fuse: PatchedFuse | undefined
  #device: FuseDevice | undefined

  constructor(deps: BridgeDeps, settings: BridgeSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  get unmounted(): Promise<void> {
    return this.#gone.promise
  }

  async mount(): Promise<void> {
    const { mountpoint, allowOther } = this.#settings
    const busyPoll = new BusyPoll()
    const replies = new Replies(this.#deps.log, busyPoll)
    const operations = fuseOperations(this.#deps, replies, this.#settings)
    const options = {
      timeout: false,
      fsname: this.#options(),
      subtype: 'bagfs',
      allowOther,
      autoCache: true,
      defaultPermissions: true,
    } as const
    const fuse = new PatchedFuse(mountpoint, operations, options, busyPoll)
    await new Promise<void>((resolve, reject) => {
      fuse.mount((error) => {
        if (error === null) resolve()
        else reject(cannotMount(mountpoint, error))
      })
    })
    this.#fuse = fuse
    this.#device = await FuseDevice.find()
    this.#watch()
  }

  /**
   * fuse-native offers few of libfuse's options but passes `fsname` on as it is, commas included.
   * big_writes: writes of 128 KiB in place of 4 KiB. atomic_o_trunc: truncating does not load old
   * content. use_ino: inode numbers stay the same while the drive runs.
   */
  #options(): string {
    const options = ['bagfs', 'big_writes', 'atomic_o_trunc', 'use_ino', 'noatime']
    if (this.#settings.readOnly) options.push('ro')
    return options.join(',')
  }

  async unmount(options: { readonly lazy: boolean }): Promise<void> {
    const { mountpoint } = this.#settings
    if (await this.#isMounted()) await unmountPath(mountpoint, options)
    await this.#letGo()
  }

  /** The user may unmount with fusermount or umount, which fuse-native does not report. */
  #watch(): void {
    systemClock.after(WATCH_MS, () => {
      this.#look().catch((error: unknown) => {
        this.#deps.log.warn({ error: String(error) }, 'The mount table cannot be read.')
        this.#watch()
      })
    })
  }

  async #look(): Promise<void> {
    const isCutOff = (await this.#device?.isOpen()) === false
    const isMounted = await this.#isMounted()
    if (isMounted && !isCutOff) {
      this.#watch()
      return
    }
    if (isMounted) await this.#takeDeadAway()
    await this.#letGo()
  }

  /** Programs that use it get errors already. A drive of another process may be mounted there by now: that stays. */
  async #takeDeadAway(): Promise<void> {
    const { mountpoint } = this.#settings
    const { log } = this.#deps
    const isDead = await statfs(mountpoint).then(
      () => false,
      (error: unknown) => systemErrorCode(error) === 'ENOTCONN',
    )
    if (!isDead) return
    log.warn({}, 'The kernel has cut the drive off (umount -f): it leaves.')
    await unmountPath(mountpoint, { lazy: true }).catch((error: unknown) => {
      log.warn({ error: String(error) }, 'The dead mount stays.')
    })
  }

  async #letGo(): Promise<void> {
    const fuse = this.#fuse
    this.#fuse = undefined
    await fuse?.letGo()
    this.#gone.resolve()
  }

  async #isMounted(): Promise<boolean> {
    if (platform() !== 'linux') return true
    const mounts = await listMounts()
    const { mountpoint } = this.#settings
    return mounts.some((each) => each.type === 'fuse.bagfs' && each.mountpoint === mountpoint)
  }
}

function cannotMount(mountpoint: string, cause: Error): DriveError {
  return new DriveError('usage', `Cannot mount on ${mountpoint}: ${cause.message}`, { cause })
}
