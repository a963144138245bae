import { deferred } from '../domain/deferred.ts'
import { DriveError } from '../domain/errors.ts'
import type { Bridge, BridgeDeps, BridgeSettings, PassthroughState } from './bridge.ts'
import { BusyPoll } from './busy-poll.ts'
import { fuseOperations } from './operations.ts'
import { FuseDevice } from './fuse-device.ts'
import { MountWatch } from './mount-watch.ts'
import { watchedHandlers } from './watched-handlers.ts'
import { PatchedFuse } from './patched-fuse.ts'
import { refuseMounted } from './refuse-mounted.ts'
import { Replies } from './replies.ts'
import { unmountOwn } from './unmount.ts'

/** The bridge over libfuse 2, by the fuse-native package. */
export class FuseNativeBridge implements Bridge {
  readonly #deps: BridgeDeps
  readonly #settings: BridgeSettings
  readonly #watch: MountWatch
  readonly #gone = deferred()
  #fuse: PatchedFuse | undefined
  #device: FuseDevice | undefined

  constructor(deps: BridgeDeps, settings: BridgeSettings) {
    this.#deps = deps
    this.#settings = settings
    this.#watch = new MountWatch(deps.log, {
      mountpoint: settings.mountpoint,
      isCutOff: async () => (await this.#device?.isOpen()) === false,
    })
  }

  get passthrough(): PassthroughState {
    return { isActive: false, reason: 'only --bridge dev-fuse has it' }
  }

  get mountpoint(): string {
    return this.#watch.mountpoint
  }

  onMoved(tell: (mountpoint: string) => void): void {
    this.#watch.onMoved(tell)
  }

  get unmounted(): Promise<void> {
    return this.#gone.promise
  }

  async mount(before: () => Promise<void>): Promise<void> {
    const { mountpoint, allowOther } = this.#settings
    await refuseMounted(mountpoint)
    await before()
    const busyPoll = new BusyPoll()
    const replies = new Replies(this.#deps.log, busyPoll)
    const { watch } = this.#deps
    const handlers = fuseOperations(this.#deps, replies, this.#settings)
    const operations = watch === undefined ? handlers : watchedHandlers(handlers, watch)
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
    this.#watch.gone
      .then(() => this.#letGo())
      .catch((error: unknown) => {
        this.#deps.log.warn({ error: String(error) }, 'The FUSE library does not let go.')
      })
    this.#watch.start()
  }

  /**
   * fuse-native offers few of libfuse's options but passes `fsname` on as it is, commas included.
   * big_writes: writes of 128 KiB in place of 4 KiB. atomic_o_trunc: truncating does not load old
   * content. use_ino: inode numbers stay the same while the drive runs.
   */
  #options(): string {
    const options = ['bagfs', 'big_writes', 'atomic_o_trunc', 'use_ino']
    if (this.#settings.readOnly) options.push('ro')
    return options.join(',')
  }

  async unmount(options: { readonly lazy: boolean }): Promise<void> {
    const mountpoint = await this.#watch.where()
    if (mountpoint !== undefined) await unmountOwn(mountpoint, options)
    await this.#letGo()
  }

  async #letGo(): Promise<void> {
    const fuse = this.#fuse
    this.#fuse = undefined
    await fuse?.letGo()
    this.#gone.resolve()
  }
}

function cannotMount(mountpoint: string, cause: Error): DriveError {
  return new DriveError('usage', `Cannot mount on ${mountpoint}: ${cause.message}`, { cause })
}
