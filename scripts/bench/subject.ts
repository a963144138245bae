/** A file that the server has from the start. */
export interface SeedFile {
  readonly name: string
  readonly path: string
  /** A zip that is to be the bag of a folder. */
  readonly isFolder?: boolean
}

/** A mount under measurement. */
export interface Mount {
  readonly path: string
  readonly pid: number
  leave(): Promise<void>
}

export interface MountOptions {
  /** Keep the cache of the mount before; without it the mount starts with nothing. */
  readonly keepsState?: boolean
  /** Where the server is reached, when not directly. */
  readonly url?: string
}

/** A server with its data on tmpfs, and the mount of it. */
export interface Subject {
  readonly name: string
  mount(options?: MountOptions): Promise<Mount>
  /** Arguments with which curl gets a seeded file from the server. */
  curl(name: string): readonly string[]
  /** True when the server has the whole of each of these files; missing where nothing is sent. */
  has?(files: readonly { readonly name: string; readonly size: number }[]): Promise<boolean>
  /** Ends the server. */
  close(): Promise<void>
}
