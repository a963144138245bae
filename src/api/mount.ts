import { readEnvironment } from '../config/env.ts'
import { parseServiceUrl } from '../config/service-url.ts'
import { silentLogger } from '../domain/logger.ts'
import type { DriveHere } from '../mount/running-drive.ts'
import { prepareMount } from '../mount/prepare-mount.ts'
import type { MountOptions } from './mount-options.ts'
import type { MountStatus } from './mount-status.ts'
import { readMountOptions } from './read-mount-options.ts'
import { watchThreads } from './thread-watch.ts'

/** What still waits while a drive leaves. */
export interface UnmountProgress {
  /** Changes that the service has not confirmed. */
  readonly waiting: number
  /** Bytes that are still to be sent. */
  readonly waitingBytes: number
  /** Speed of late, once it is known. */
  readonly bytesPerSecond?: number
  /** Why the oldest one waits, when its last try failed. */
  readonly failure?: string
}

/** How a drive leaves. */
export interface UnmountOptions {
  /** Does not wait for the outbox: what waits is kept for the next mount. */
  readonly now?: boolean
  readonly onProgress?: (progress: UnmountProgress) => void
}

/** A drive that is mounted within this process. */
export interface MountHandle {
  /** Absolute, without symbolic links. */
  readonly mountpoint: string
  /** How it is now. */
  status(): MountStatus
  /**
   * Sends what was closed, and waits until the service has it: of one name in the drive's root, or all of it. Resolves
   * with the paths of files that programs still write. Rejects with the reason when the service does not take something.
   */
  sync(name?: string): Promise<readonly string[]>
  /**
   * Unmounts and waits until everything is stored. `kept` is the number of changes that stay on this machine for
   * the next mount. Rejects `busy` while programs use the drive, which then stays mounted, unless `now`; and always
   * while this process has a file of the drive open.
   */
  unmount(options?: UnmountOptions): Promise<{ readonly kept: number }>
  /** Resolves when the drive is gone, however that came about; rejects when it could not let go of something. */
  readonly unmounted: Promise<void>
}

/**
 * Mounts an account as a drive, served by this process; resolves when it answers. `bagfs status` and the other commands
 * know it like any drive. It has to be unmounted before the process ends.
 *
 * A synchronous call on the drive (`readFileSync`) in this process never returns, because the same thread has to answer
 * it. An asynchronous one holds a thread of Node's pool until it is answered, and the drive needs some of them. A program
 * that makes several at a time wants more: start it with `UV_THREADPOOL_SIZE=64`. A process whose threads all wait for
 * its own drive cannot be killed before `umount -f`. Neither may it start a program while it has a file of the drive open to
 * write, which never returns. Other programs can do what they like.
 *
 * Rejects with a `DriveError`: `usage` for options, a directory or a machine that will not do, `unauthorized`,
 * `unavailable`, `locked` when another process has mounted this account with this `stateDir`.
 */
export async function mount(options: MountOptions): Promise<MountHandle> {
  const { token, log = silentLogger } = options
  const url = parseServiceUrl(options.url)
  const { flags, stateDir } = readMountOptions(options)
  const wanted = { mountpoint: options.mountpoint, options: flags, stateDir }
  const prepared = await prepareMount(readEnvironment(), wanted)
  // It loads native libraries, which a program that only connects does without.
  const { runDrive } = await import('../mount/run-drive.ts')
  let ended: Promise<void> | undefined
  const drive = await new Promise<DriveHere>((resolve, reject) => {
    ended = runDrive(
      { ...prepared, url, token, serviceKey: url },
      {
        log,
        onSecret: ignore,
        onReady: resolve,
        stopSignal: new AbortController().signal,
        nowSignal: new AbortController().signal,
        onProgress: ignore,
      },
    )
    ended.catch(reject)
  })
  const watch = watchThreads(prepared.mountpoint)
  const unmounted = (ended ?? Promise.resolve()).finally(() => {
    watch.stop()
  })
  // A program that does not look at it is no reason to end the process.
  unmounted.catch(ignore)
  return new HandleHere(prepared.mountpoint, drive, unmounted)
}

const ignore = (): void => undefined

class HandleHere implements MountHandle {
  readonly mountpoint: string
  readonly unmounted: Promise<void>
  readonly #drive: DriveHere

  constructor(mountpoint: string, drive: DriveHere, unmounted: Promise<void>) {
    this.mountpoint = mountpoint
    this.#drive = drive
    this.unmounted = unmounted
  }

  status(): MountStatus {
    return this.#drive.status()
  }

  sync(name?: string): Promise<readonly string[]> {
    return this.#drive.sync(name)
  }

  async unmount({ now = false, onProgress = ignore }: UnmountOptions = {}): Promise<{
    readonly kept: number
  }> {
    const kept = await this.#drive.leave({ now, onProgress })
    await this.unmounted
    return { kept }
  }
}
