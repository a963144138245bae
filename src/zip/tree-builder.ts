import type { KeptAttributes } from '../domain/attributes.ts'
import { DriveError } from '../domain/errors.ts'
import { shownName, SpareNames } from './shown-names.ts'
import { DEFAULT_FILE_MODE, type DirectoryNode, type LeafNode } from './tree.ts'
import { HOST, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG } from './zip-format.ts'
import type { CentralRecord } from './zip-parse.ts'

export interface TreeSettings {
  /** Memory that the tree may take, in bytes, as `NODE_BYTES` estimates it; implied directories count. */
  readonly maxBytes: number
  /** True for a zip of this program: what others may have put into one (owners, set-user-ID) is not taken. */
  readonly isOwn: boolean
}

/** A node with all that hangs on it but its name. */
const NODE_BYTES = 300

type Writable<T> = { -readonly [Key in keyof T]: T[Key] }
type Leaf = Omit<Writable<LeafNode>, 'parent'> & { parent: Directory | undefined }
interface Directory extends Omit<Writable<DirectoryNode>, 'parent' | 'children'> {
  parent: Directory | undefined
  children: Map<string, Leaf | Directory>
}

const DEFAULT_DIRECTORY_MODE = 0o755
const DOS_READ_ONLY = 0x01
const ROOT_MTIME_MS = 0

/**
 * Makes a tree of central records. No path can leave it: `..` is a name like others, only coded.
 *
 * Of members of one path the last has the name, as it has for programs that unpack; the earlier ones
 * get spare names. A directory has the name before a file, because the paths below it need it.
 */
export class TreeBuilder {
  readonly #maxBytes: number
  readonly #isOwn: boolean
  readonly #root: Directory = directory('', undefined)
  /** Leaves whose name another node took, in the order of the archive. */
  readonly #displaced: Leaf[] = []
  /** The directory of the last leaf, under what the paths of all in it begin with. */
  #last: { readonly path: string; readonly node: Directory } = { path: '', node: this.#root }
  #bytes = NODE_BYTES

  constructor(settings: TreeSettings) {
    this.#maxBytes = settings.maxBytes
    this.#isOwn = settings.isOwn
  }

  /** @throws DriveError `too-large` when the tree takes more than it may. */
  add(record: CentralRecord): void {
    const kind = kindOf(record)
    if (kind === 'directory') {
      const node = this.#directoryAt(namesOf(record.path))
      Object.assign(node, this.#keptOf(record, DEFAULT_DIRECTORY_MODE))
      return
    }
    const { directory, name } = this.#placeOf(record.path)
    const kept = this.#keptOf(record, DEFAULT_FILE_MODE)
    this.#place(leaf(record, kept, name, kind), directory)
  }

  #keptOf(record: CentralRecord, usualMode: number): KeptAttributes {
    const { mtimeMs, own } = record
    const mode = modeOf(record, usualMode, this.#isOwn ? 0o7777 : 0o777)
    return this.#isOwn ? { mode, mtimeMs, ...own } : { mode, mtimeMs }
  }

  #placeOf(path: string): { readonly directory: Directory; readonly name: string } {
    const nameAt = path.lastIndexOf('/') + 1
    const part = path.slice(nameAt)
    if (part !== '' && part !== '.') {
      return { directory: this.#directoryOf(path.slice(0, nameAt)), name: shownName(part) }
    }
    const names = namesOf(path)
    // A path of nothing but `.` and empty names still shows, in the root.
    const name = names.pop() ?? shownName(part)
    return { directory: this.#directoryAt(names), name }
  }

  /** Most leaves are in the directory of the one before. */
  #directoryOf(path: string): Directory {
    if (path !== this.#last.path) this.#last = { path, node: this.#directoryAt(namesOf(path)) }
    return this.#last.node
  }

  /**
   * The root. With `folderName`, one directory of that name that is alone at the top becomes the root.
   * The builder is not to be used after.
   */
  finish(folderName?: string): DirectoryNode {
    this.#nameDisplaced()
    const only = this.#root.children.values().next().value
    const isTop = this.#root.children.size === 1 && only?.type === 'directory'
    if (!isTop || folderName === undefined || only.name !== shownName(folderName)) return this.#root
    only.name = ''
    only.parent = undefined
    return only
  }

  #directoryAt(names: readonly string[]): Directory {
    let at = this.#root
    let pathBytes = 0
    for (const name of names) {
      const child = at.children.get(name)
      if (child?.type === 'directory') at = child
      else {
        // The next zip of the folder has the whole path of each.
        this.#bytes += pathBytes
        at = this.#place(directory(name, at), at)
      }
      pathBytes += name.length + 1
    }
    return at
  }

  #place<T extends Leaf | Directory>(node: T, parent: Directory): T {
    this.#bytes += NODE_BYTES + node.name.length
    if (this.#bytes > this.#maxBytes) {
      throw new DriveError('too-large', 'The zip has more entries than can be shown.')
    }
    node.parent = parent
    const other = parent.children.get(node.name)
    if (other?.type === 'directory') {
      if (node.type !== 'directory') this.#displaced.push(node)
      return node
    }
    if (other !== undefined) this.#displaced.push(other)
    parent.children.set(node.name, node)
    return node
  }

  /** After all others have their names, so that no member loses its own to a spare one. */
  #nameDisplaced(): void {
    const spares = new Map<Directory, SpareNames>()
    for (const node of this.#displaced) {
      const parent = node.parent ?? this.#root
      const spare = spares.get(parent) ?? new SpareNames()
      spares.set(parent, spare)
      node.name = spare.find(node.name, (name) => parent.children.has(name))
      parent.children.set(node.name, node)
    }
  }
}

function directory(name: string, parent: Directory | undefined): Directory {
  return {
    type: 'directory',
    name,
    parent,
    mode: DEFAULT_DIRECTORY_MODE,
    mtimeMs: ROOT_MTIME_MS,
    children: new Map(),
  }
}

function leaf(
  { member }: CentralRecord,
  kept: KeptAttributes,
  name: string,
  kind: 'file' | 'symlink',
): Leaf {
  return {
    type: kind,
    zippedAs: kind,
    name,
    parent: undefined,
    ...kept,
    linkTarget: undefined,
    member,
  }
}

/** The parts of a path as they are shown; empty ones and `.` say nothing and are left out. */
function namesOf(path: string): string[] {
  const names: string[] = []
  for (const part of path.split('/')) if (part !== '' && part !== '.') names.push(shownName(part))
  return names
}

function kindOf(record: CentralRecord): 'file' | 'directory' | 'symlink' {
  const format = unixMode(record) & S_IFMT
  if (record.path.endsWith('/')) return 'directory'
  if (format === S_IFDIR && record.member.size === 0) return 'directory'
  return format === S_IFLNK ? 'symlink' : 'file'
}

/** The mode that Unix programs put into the external attributes, or 0. */
function unixMode(record: CentralRecord): number {
  const mode = record.externalAttributes >>> 16
  if (record.host === HOST.unix || record.host === HOST.macOs) return mode
  // Some programs write a Unix mode under another host; a valid file type tells that it is one.
  const format = mode & S_IFMT
  return format === S_IFREG || format === S_IFDIR || format === S_IFLNK ? mode : 0
}

function modeOf(record: CentralRecord, fallback: number, taken: number): number {
  const mode = unixMode(record)
  if (mode !== 0) return mode & taken
  return (record.externalAttributes & DOS_READ_ONLY) !== 0 ? fallback & 0o555 : fallback
}
