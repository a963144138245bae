import type { DriveStatus, WireItem, WireTrashItem } from '../control/protocol.ts'

/** A drive as the page looks at it and acts on it, mounted or not. Every rejection is a DriveError. */
export interface WatchedDrive {
  readonly mountpoint: string
  /** The command that mounts it again. */
  mountAgain(): string
  /** Undefined while no drive is mounted there. Rejects `timed-out` when its process hangs. */
  status(): Promise<DriveStatus | undefined>
  /** What the service does not have, also of a drive that is not mounted. */
  outbox(): Promise<readonly WireItem[]>
  /** What was deleted or replaced, the newest first. */
  trash(): Promise<readonly WireTrashItem[]>
  /** Tries changes again now; answers those that it did this to. All that failed without ids. */
  retry(ids: readonly string[]): Promise<readonly WireItem[]>
  /** Forgets changes and their content for good. */
  discard(ids: readonly string[]): Promise<readonly WireItem[]>
  restore(id: string, options: { readonly name?: string; readonly replace: boolean }): Promise<void>
}
