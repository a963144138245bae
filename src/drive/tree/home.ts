import type { NodeId } from '../../domain/ids.ts'
import type {
  AttributeChanges,
  KeptAttributes,
  Owner,
  SpecialNode,
} from '../../domain/attributes.ts'
import type { Attributes, DirectoryEntry } from './attributes.ts'
import type { OpenFile, OpenMode } from './open-file.ts'

/** What opening takes. */
export interface OpenOptions extends OpenMode {
  readonly truncate: boolean
  /** The kernel does not cut reads of a file that the drive makes up at the size that it was told. */
  readonly isUncut?: boolean
}

/** How a file is opened that is made. A bridge that cannot tell leaves it out. */
export type CreateOptions = Pick<OpenMode, 'append'>

/** What something begins with that is made. */
export type MadeAttributes = Pick<KeptAttributes, 'mode'> & Owner

/** A file that was made and opened. */
export interface Created {
  readonly attributes: Attributes
  readonly file: OpenFile
}

/**
 * Where the names of nodes are kept, and what a change promises there: the root (intents), the inside of a folder
 * (a journal over its bag), or a directory that the drive makes up. `Nodes` tells of
 * each node which home it has. Every rejection is a DriveError.
 */
export interface Home {
  lookup(parent: NodeId, name: string): Promise<Attributes>
  /** As `lookup`, when the answer is at hand; undefined when it is not, or is an error. */
  lookupNow?(parent: NodeId, name: string): Attributes | undefined
  getAttributes(node: NodeId): Promise<Attributes>
  setAttributes(node: NodeId, changes: AttributeChanges): Promise<void>
  truncate(node: NodeId, length: number): Promise<void>
  /** Without `.` and `..`. */
  readDirectory(node: NodeId): Promise<readonly DirectoryEntry[]>
  create(
    parent: NodeId,
    name: string,
    made: MadeAttributes,
    options: CreateOptions,
  ): Promise<Created>
  /** As `create`, of a file without a name, which goes with its last handle; absent where none is kept. */
  createNameless?(parent: NodeId, made: MadeAttributes): Promise<Created>
  /** Gives a file of `createNameless` a free name; rejects `cross-device` for a file of another home or folder. */
  link?(file: OpenFile, parent: NodeId, name: string): Promise<Attributes>
  makeDirectory(parent: NodeId, name: string, made: MadeAttributes): Promise<void>
  makeSymlink(parent: NodeId, name: string, target: string, owner: Owner): Promise<void>
  makeNode(parent: NodeId, name: string, made: MadeAttributes, special: SpecialNode): Promise<void>
  readSymlink(node: NodeId): Promise<string>
  open(node: NodeId, options: OpenOptions): Promise<OpenFile>
  /** Answers the node, which stays readable while it is open. */
  unlink(parent: NodeId, name: string): Promise<NodeId>
  removeDirectory(parent: NodeId, name: string): Promise<void>
  /** Within this home; rejects `cross-device` where it would leave one folder for another. */
  rename(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void>
  /** Gives each of two names what the other has; absent where names cannot be exchanged. Rejects as `rename`. */
  exchange?(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void>
  listExtended(node: NodeId): readonly string[]
  getExtended(node: NodeId, name: string): string
  setExtended(node: NodeId, name: string, value: string): Promise<void>
}
