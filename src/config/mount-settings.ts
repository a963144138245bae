import type { MetricsAddress } from './metrics-address.ts'
import type { BridgeChoice, PassthroughChoice } from './options.ts'
import type { TokenPlace } from './token.ts'

/** Everything that a mounted drive is told by flags, environment and defaults. One place builds a drive from it: mount/build-drive.ts. */
export interface MountSettings {
  /** Absolute path of an empty directory. */
  readonly mountpoint: string
  /** The account's name here, which file managers show; without one they show that of the directory. */
  readonly profile?: string
  /** The options of `bagfs mount` that were typed, as a shell gives them: what a person types to mount it again. */
  readonly options?: readonly string[]
  /** Base URL of the service, without a slash at its end. */
  readonly url: string
  /** Never logged, never in the arguments of a process. */
  readonly token: string
  /** Where the token was read, which may get another one. */
  readonly tokenPlace?: TokenPlace
  /**
   * Names the service in the state directory. The URL itself, except for the embedded service of
   * `--local`, whose port is another one at each mount: there `local:` and its data directory.
   */
  readonly serviceKey: string
  /** Absolute path of the state directory's root; one directory per account lies under it. */
  readonly stateDir: string
  readonly cacheBytes: number
  readonly minFreeBytes: number
  /** The largest file that is fetched for a program that makes thumbnails. */
  readonly thumbnailBytes: number
  /** How long what was deleted or replaced is kept on this machine; 0 keeps nothing. */
  readonly keepDeletedMs: number
  /** The largest content that is fetched for the trash before it is deleted; 0 fetches none. */
  readonly fetchDeletedBytes: number
  readonly listingTtlMs: number
  readonly listingLagMs: number
  /** How long a folder rests before its changes are uploaded. */
  readonly folderRestMs: number
  /** How long the service may be silent; three times that for content. */
  readonly timeoutMs: number
  readonly writeBack: boolean
  readonly readOnly: boolean
  readonly allowOther: boolean
  /** What talks to the kernel. */
  readonly bridge: Exclude<BridgeChoice, 'auto'>
  /** Whether the kernel may read cached files by itself, where it can. */
  readonly passthrough: PassthroughChoice
  /** Owner and group shown for every entry. */
  readonly uid: number
  readonly gid: number
  /** Permission bits that are taken away from every entry, such as 0o022. */
  readonly umask: number
  /** Description of new bags. */
  readonly description: string
  /** Where figures are served over HTTP, if anywhere. */
  readonly metrics?: MetricsAddress
}
