import type { Readable } from 'node:stream'
import type {
  DriveStatus,
  LeavingProgress,
  Synced,
  TraceEvent,
  TraceFilter,
  WireExplanation,
  WireItem,
  WirePin,
  WireReport,
  WireTrashItem,
  WireWarmedUp,
  WireWarmUpProgress,
} from './protocol.ts'

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
  /** Asks how full the account is, where a status would tell what is old. Waits a moment at most. */
  renewSpace(): Promise<void>
  /** What is at a path of the drive, by its names from the root. Rejects `not-found` where nothing is known of it. */
  explain(names: readonly string[]): Promise<WireExplanation>
  /** The figures of docs/METRICS.md as Prometheus reads them. */
  metrics(): Promise<string>
  /** Operations that begin from now on, as they end, until the signal is aborted. It begins with `begun`. */
  trace(filter: TraceFilter, signal: AbortSignal): AsyncIterable<readonly TraceEvent[]>
  /**
   * Sends what was closed under a name of the root, or all.
   * `onProgress` gets how many changes wait, of the whole drive.
   */
  sync(options: {
    readonly name?: string
    readonly onProgress: (waiting: number) => void
  }): Promise<Synced>
  /** Fetches what is at a path into the cache, by its names from the root. */
  warmUp(
    names: readonly string[],
    options: {
      readonly onProgress: (progress: WireWarmUpProgress) => void
      readonly signal: AbortSignal
    },
  ): Promise<WireWarmedUp>
  /** Keeps what is at a path on this machine, by its names from the root. Answers what was pinned: a folder as a whole. */
  pin(names: readonly string[]): Promise<WirePin>
  /** Answers the name that was pinned; rejects `not-found` when it was not. */
  unpin(names: readonly string[]): Promise<string>
  /** Asks for the listing now; resolves with the number of bags. */
  refresh(): Promise<number>
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
  /** What was deleted or replaced, the newest first. */
  trash(): readonly WireTrashItem[]
  /** See `RootTrash.restore`; `wanted` is an id or a name. Answers the item as it was in the trash. */
  restore(
    wanted: string,
    options: { readonly name?: string; readonly replace: boolean },
  ): Promise<WireTrashItem>
  /** Removes items for good; all without ids. */
  emptyTrash(wanted: readonly string[]): Promise<readonly WireTrashItem[]>
}
