import type { NodeId } from '../../domain/ids.ts'

/** What stat tells of a node. Sizes in bytes, times in milliseconds since the epoch. */
export interface Attributes {
  readonly node: NodeId
  readonly kind: 'file' | 'directory' | 'symlink'
  readonly size: number
  /** Permission bits only (0o7777). */
  readonly mode: number
  readonly mtimeMs: number
  readonly atimeMs: number
  readonly ctimeMs: number
}

/** A name in a directory; `kind` where it is known without asking. */
export interface DirectoryEntry {
  readonly name: string
  readonly kind: Attributes['kind'] | undefined
}

/** Changes of attributes; what is absent stays as it is. */
export interface AttributeChanges {
  readonly mode?: number
  readonly mtimeMs?: number
  readonly atimeMs?: number
}
