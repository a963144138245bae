import type { Readable } from 'node:stream'
import type { DriveStatus, LeavingProgress, Synced, WireItem, WireReport } from './protocol.ts'

/** What a running drive does when asked over its socket. Every rejection is a DriveError. */
export interface ControlActions {
  /**
   * Leaves; resolves with how many changes are kept for the next mount. Rejects `busy` while
   * programs use the drive.
   */
  leave(options: {
    readonly now: boolean
    readonly onProgress: (progress: LeavingProgress) => void
  }): Promise<number>
  status(): DriveStatus
  /**
   * Sends what was closed under a name of the root, or all.
   * `onProgress` gets how many changes wait, of the whole drive.
   */
  sync(options: {
    readonly name?: string
    readonly onProgress: (waiting: number) => void
  }): Promise<Synced>
  /** Tries failed changes again now, also those that waited for the person; all without ids. */
  retry(ids: readonly string[]): Promise<readonly WireItem[]>
  /** Forgets changes and their content for good. Rejects `busy` while one is being sent. */
  discard(ids: readonly string[]): Promise<readonly WireItem[]>
  /** Content of a change. */
  openContent(id: string): Promise<Readable>
  verifyCache(options: {
    readonly onProgress: (checked: number) => void
    readonly signal: AbortSignal
  }): Promise<WireReport>
  /** Removes all cached content that is not open. */
  clearCache(): Promise<void>
}
