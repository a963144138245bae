import type { MountSettings } from '../config/mount-settings.ts'
import type { ControlActions } from '../control/actions.ts'
import type { LeavingProgress } from '../control/protocol.ts'
import type { Logger } from '../domain/logger.ts'

export type { LeavingProgress } from '../control/protocol.ts'

/** A mounted drive, for the process that runs it. */
export interface DriveHere extends Pick<ControlActions, 'leave' | 'status'> {
  /**
   * Sends what was closed under a name of the root, or all; resolves with the paths that programs still write. Rejects
   * with the reason of the first change that the service does not take.
   */
  sync(name?: string): Promise<readonly string[]>
}

export interface RunDriveDeps {
  readonly log: Logger
  /** Told of a token that must never show in the log. */
  readonly onSecret: (secret: string) => void
  /** Called once, when the mounted drive answers. */
  readonly onReady: (drive: DriveHere) => void
  /** First abort: leave, but wait for the outbox. */
  readonly stopSignal: AbortSignal
  /** Leave now; what waits stays in the outbox for the next mount. */
  readonly nowSignal: AbortSignal
  readonly onProgress: (progress: LeavingProgress) => void
}

/** Mounts the drive; resolves when it has been unmounted, however that came about. */
export type RunDrive = (settings: MountSettings, deps: RunDriveDeps) => Promise<void>
