import type { HandleId, NodeId } from '../domain/ids.ts'
import type { AttributeChanges, Attributes, DirectoryEntry } from './attributes.ts'
import type { OpenMode } from './nodes.ts'

/** What opening takes. */
export interface OpenOptions extends OpenMode {
  readonly truncate: boolean
}

/** A file that was made and opened. */
export interface Created {
  readonly attributes: Attributes
  readonly handle: HandleId
}

/**
 * A part of the drive below its root: the inside of folder bags, or a directory that the drive makes
 * up. Its node and handle ids come from the drive's counters, so that each id has one owner. Every
 * rejection is a DriveError.
 */
export interface Subtree {
  owns(node: NodeId): boolean
  ownsHandle(handle: HandleId): boolean
  lookup(parent: NodeId, name: string): Promise<Attributes>
  /** As `lookup`, when the answer is at hand; undefined when it is not, or is an error. */
  lookupNow?(parent: NodeId, name: string): Attributes | undefined
  getAttributes(node: NodeId): Promise<Attributes>
  setAttributes(node: NodeId, changes: AttributeChanges): Promise<void>
  truncate(node: NodeId, length: number, handle?: HandleId): Promise<void>
  /** Without `.` and `..`. */
  readDirectory(node: NodeId): Promise<readonly DirectoryEntry[]>
  create(parent: NodeId, name: string, mode: number): Promise<Created>
  makeDirectory(parent: NodeId, name: string, mode: number): Promise<void>
  makeSymlink(parent: NodeId, name: string, target: string): Promise<void>
  readSymlink(node: NodeId): Promise<string>
  open(node: NodeId, options: OpenOptions): Promise<HandleId>
  read(handle: HandleId, buffer: Uint8Array, position: number): number | Promise<number>
  write(handle: HandleId, bytes: Uint8Array, position: number): number | Promise<number>
  flush(handle: HandleId): Promise<void>
  fsync(handle: HandleId): Promise<void>
  release(handle: HandleId): Promise<void>
  /** Answers the node, which stays readable while it is open. */
  unlink(parent: NodeId, name: string): Promise<NodeId>
  removeDirectory(parent: NodeId, name: string): Promise<void>
  /** Within this subtree; rejects `cross-device` where it would leave one folder for another. */
  rename(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void>
  listExtended(node: NodeId): readonly string[]
  getExtended(node: NodeId, name: string): string
  setExtended(node: NodeId, name: string, value: string): Promise<void>
}
