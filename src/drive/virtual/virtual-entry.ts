import type { Source } from '../tree/source.ts'

/** A file that the drive makes up. Its content is made at each look. */
export interface VirtualFile {
  readonly kind: 'file'
  /** Whether other users may read it, where the drive is theirs to look into. */
  readonly isForAll?: boolean
  /** The content as it is now; the tree closes it. Rejects `gone` or `not-found` when there is none. */
  open(): Promise<VirtualContent>
  /** What `touch` does; without it the file is read-only. */
  touch?(): Promise<void>
}

/** Content as it was when it was made. */
export interface VirtualContent {
  readonly source: Source
  readonly size: number
  readonly mtimeMs: number
}

/** A directory that the drive makes up. */
export interface VirtualDirectory {
  readonly kind: 'directory'
  names(): readonly string[]
  find(name: string): VirtualEntry | undefined
  /** What `touch` or `mkdir` of a new name does; without it the directory is read-only. */
  add?(name: string, kind: 'file' | 'directory'): Promise<void>
}

export type VirtualEntry = VirtualFile | VirtualDirectory

/** A directory with entries that stay the same while the drive runs. */
export function fixedDirectory(entries: ReadonlyMap<string, VirtualEntry>): VirtualDirectory {
  return {
    kind: 'directory',
    names: () => [...entries.keys()],
    find: (name) => entries.get(name),
  }
}

/** A file whose text is written anew for each look. */
export function textFile(write: () => string, now: () => number): VirtualFile {
  return {
    kind: 'file',
    open: () => {
      const bytes = Buffer.from(write())
      return Promise.resolve({ source: bytesSource(bytes), size: bytes.length, mtimeMs: now() })
    },
  }
}

function bytesSource(bytes: Buffer): Source {
  const readNow = (buffer: Uint8Array, position: number): number =>
    bytes.copy(buffer, 0, Math.min(position, bytes.length))
  return {
    length: () => Promise.resolve(bytes.length),
    readNow,
    read: (buffer, position) => Promise.resolve(readNow(buffer, position)),
    close: () => undefined,
  }
}
