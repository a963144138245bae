import type { KeptAttributes, SpecialKind } from '../../domain/attributes.ts'
import type { NodeId } from '../../domain/ids.ts'

/** What stat tells of a node. Sizes in bytes. */
export interface Attributes extends KeptAttributes {
  readonly node: NodeId
  readonly kind: 'file' | 'directory' | 'symlink' | SpecialKind
  /** Of a device: its number. */
  readonly device?: number | undefined
  readonly size: number
  /** Of content with holes that is on this machine: what it takes of the local disk. Undefined: as much as `size`. */
  readonly allocated?: number | undefined
  /** Of a directory: it and its name, and the directories in it; undefined where these are not at hand. */
  readonly links?: number | undefined
  readonly atimeMs: number
  readonly ctimeMs: number
}

/** A name in a directory; `kind` where it is known without asking. */
export interface DirectoryEntry {
  readonly name: string
  readonly kind: Attributes['kind'] | undefined
}
