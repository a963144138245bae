import type { MountSettings } from '../config/mount-settings.ts'
import type { LeavingProgress } from '../control/protocol.ts'
import type { Logger } from '../domain/logger.ts'

export type { LeavingProgress } from '../control/protocol.ts'

export interface RunDriveDeps {
  readonly log: Logger
  /** Told of a token that must never show in the log. */
  readonly onSecret: (secret: string) => void
  /** Called once, when the mounted drive answers. */
  readonly onReady: (info: { readonly mountpoint: string; readonly pid: number }) => void
  /** First abort: leave, but wait for the outbox. */
  readonly stopSignal: AbortSignal
  /** Leave now; what waits stays in the outbox for the next mount. */
  readonly nowSignal: AbortSignal
  readonly onProgress: (progress: LeavingProgress) => void
}

/** Mounts the drive; resolves when it has been unmounted, however that came about. */
export type RunDrive = (settings: MountSettings, deps: RunDriveDeps) => Promise<void>
