import { systemClock } from '../../domain/clock.ts'
import { deferred } from '../../domain/deferred.ts'
import { DriveError } from '../../domain/errors.ts'
import type { Bridge, BridgeDeps, BridgeSettings, PassthroughState } from '../bridge.ts'
import { MountWatch } from '../mount-watch.ts'
import { unmountOwn, unmountPath } from '../unmount.ts'
import { DeviceBackingFiles } from './backing-files.ts'
import { DeviceChannel } from './channel.ts'
import { DeviceReader } from './device-reader.ts'
import { loadLibc } from './libc.ts'
import { mountDevice } from './mount-device.ts'
import { widenReadAhead } from './read-ahead.ts'
import { Session } from './session.ts'

/** The bridge that speaks the protocol of /dev/fuse itself. */
export class DevFuseBridge implements Bridge {
  readonly #deps: BridgeDeps
  readonly #settings: BridgeSettings
  readonly #watch: MountWatch
  readonly #gone = deferred()
  #reader: DeviceReader | undefined
  #session: Session | undefined
  #hasEnded = false

  constructor(deps: BridgeDeps, settings: BridgeSettings) {
    this.#deps = deps
    this.#settings = settings
    this.#watch = new MountWatch(deps.log, {
      mountpoint: settings.mountpoint,
      isCutOff: () => Promise.resolve(this.#hasEnded),
    })
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

  get passthrough(): PassthroughState {
    return this.#session?.passthrough ?? { isActive: false, reason: 'the mount has not begun' }
  }

  async mount(before: () => Promise<void>): Promise<void> {
    const libc = await loadLibc()
    const device = await mountDevice(libc, this.#settings, before)
    const channel = new DeviceChannel(device, this.#deps.log)
    const backingFiles = new DeviceBackingFiles(libc, device)
    const session = new Session(
      {
        ...this.#deps,
        seek: libc.seek,
        share: libc.share,
        channel,
        clock: systemClock,
        backingFiles,
      },
      this.#settings,
    )
    this.#session = session
    const reader = new DeviceReader(libc, device, (message) => {
      session.receive(message)
    })
    this.#reader = reader
    try {
      await Promise.race([session.ready, endOf(reader)])
    } catch (error) {
      await unmountPath(this.#settings.mountpoint, { lazy: true })
      throw error
    }
    await widenReadAhead(this.#settings.mountpoint, this.#deps.log)
    this.#follow(reader, channel)
  }

  /** Waits for the end of the mount, however it comes. */
  #follow(reader: DeviceReader, channel: DeviceChannel): void {
    const { log } = this.#deps
    reader.ended
      .then(async (code) => {
        log.debug({ code }, 'The kernel has ended the connection.')
        this.#hasEnded = true
        this.#watch.look()
        await channel.close()
      })
      .catch((error: unknown) => {
        log.warn({ error: String(error) }, 'The device cannot be closed.')
      })
    this.#watch.gone
      .then(() => {
        this.#letGo()
      })
      .catch((error: unknown) => {
        log.error({ error: String(error) }, 'The drive cannot let go of its mount.')
      })
    this.#watch.start()
  }

  async unmount(options: { readonly lazy: boolean }): Promise<void> {
    const mountpoint = await this.#watch.where()
    if (mountpoint !== undefined) await unmountOwn(mountpoint, options)
    this.#letGo()
  }

  /** Programs that use a detached mount are answered for as long as the process lives. */
  #letGo(): void {
    this.#reader?.unref()
    this.#gone.resolve()
  }
}

async function endOf(reader: DeviceReader): Promise<never> {
  const code = await reader.ended
  throw new DriveError('usage', `The kernel ended the mount before it began (${code}).`)
}
