import type { Logger } from '../domain/logger.ts'

/**
 * What `mount` takes. The optional ones are the options of `bagfs mount`, with its defaults. A size is a number of bytes
 * or a text such as `10GB`, a time a number of milliseconds or a text such as `5s`.
 */
export interface MountOptions {
  /** Base URL of the service, such as `https://app.openfiles.xyz`. */
  readonly url: string
  /** The API token of the service's dashboard. It is in no error and no log. */
  readonly token: string
  /** Path of an empty directory. */
  readonly mountpoint: string
  /** Where the outbox and the cache are kept: `~/.local/state/bagfs` by default. One process at a time uses an account's. */
  readonly stateDir?: string
  /** Most that cached content may take on the local disk: 10 GB by default. */
  readonly cacheSize?: number | string
  /** Space on the local disk that the cache leaves free: 1 GB by default. */
  readonly minFree?: number | string
  /** The largest file that is fetched for a thumbnail: 2 MB by default; 0 fetches none. */
  readonly thumbnails?: number | string
  /** How long deleted and replaced content is kept on this machine: a day by default; 0 keeps none. */
  readonly keepDeleted?: number | string
  /** The largest file that is fetched before it is deleted, for the trash: 16 MiB by default; 0 fetches none. */
  readonly fetchDeleted?: number | string
  /** How soon a change made elsewhere shows: 5 s by default. */
  readonly listingTtl?: number | string
  /** How late an upload may be listed: 15 s by default. */
  readonly listingLag?: number | string
  /** How long a folder rests before its changes are uploaded: 2 s by default. */
  readonly folderSettle?: number | string
  /** How long the service may be silent: 10 s by default; three times that while it moves content. */
  readonly timeout?: number | string
  /** Closing a file waits for the local disk only; uploads follow. */
  readonly writeBack?: boolean
  /** Refuse every change. */
  readonly readOnly?: boolean
  /** Let other users of this machine in. */
  readonly allowOther?: boolean
  /** Owner of entries that have none of their own; the user of this process by default. */
  readonly uid?: number
  /** Group of entries that have none of their own; the group of this process by default. */
  readonly gid?: number
  /** Permissions that are taken away from every entry: 0o022 by default. */
  readonly umask?: number
  /** Description of new bags; none by default. */
  readonly description?: string
  /** What talks to the kernel: `auto` by default. */
  readonly bridge?: 'auto' | 'dev-fuse' | 'fuse-native'
  /** Whether the kernel reads cached files by itself: `auto` by default, which is with `readOnly` and as root. */
  readonly passthrough?: 'auto' | 'off'
  /** Serve figures for Prometheus at an address of this machine, such as `127.0.0.1:9469`; not served by default. */
  readonly metrics?: string
  /** The log of the drive; nothing is logged without it. */
  readonly log?: Logger
}
