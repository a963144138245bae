import type { Logger } from '../domain/logger.ts'
import type { Drive } from '../drive/drive.ts'
import type { OperationWatch } from './operation-watch.ts'

/** Which bridge: over libfuse 2, or over the kernel's device itself. */
export type BridgeKind = 'fuse-native' | 'dev-fuse'

/** Whether the kernel reads cached files by itself, and why not. */
export type PassthroughState =
  { readonly isActive: true } | { readonly isActive: false; readonly reason: string }

export interface BridgeDeps {
  readonly drive: Drive
  readonly log: Logger
  readonly watch?: OperationWatch
}

export interface BridgeSettings {
  /** Absolute path of an existing directory. */
  readonly mountpoint: string
  readonly readOnly: boolean
  readonly allowOther: boolean
  /** Owner of everything in the drive. */
  readonly uid: number
  readonly gid: number
  /** Permission bits that nothing in the drive has, whatever it was stored with, such as 0o022. */
  readonly umask: number
  /** The largest file that is fetched for a program that makes thumbnails. */
  readonly thumbnailBytes: number
  /** Whether the kernel may read cached files by itself, where it can. */
  readonly passthrough: 'auto' | 'off'
}

/** What talks to the kernel. */
export interface Bridge {
  /**
   * Resolves when the kernel has the mount. `before` is run when nothing else is mounted there. Rejects `busy` where
   * something is, and with dev-fuse also where another drive is being mounted.
   */
  mount(before: () => Promise<void>): Promise<void>
  /** Rejects `busy` while programs use the drive; `lazy` detaches it all the same. */
  unmount(options: { readonly lazy: boolean }): Promise<void>
  /** Absolute path at which the drive was seen last: it has another one when a directory above it was renamed. */
  readonly mountpoint: string
  /** `tell` gets each new path of the drive. */
  onMoved(tell: (mountpoint: string) => void): void
  /** Resolves when the mount is gone, for whatever reason. */
  readonly unmounted: Promise<void>
  readonly passthrough: PassthroughState
}
