import type { KeptAttributes } from '../domain/attributes.ts'
import type { ZipMember } from './zip-format.ts'

/** Permission bits of a file whose member tells none. */
export const DEFAULT_FILE_MODE = 0o644

interface NodeBase extends KeptAttributes {
  /** Valid on Linux and unique in its directory; empty for the root. */
  readonly name: string
  /** The directory that holds this node; undefined for the root. */
  readonly parent: DirectoryNode | undefined
}

export interface DirectoryNode extends NodeBase {
  readonly type: 'directory'
  readonly children: ReadonlyMap<string, ArchiveNode>
}

/**
 * A file or symlink. Whether a member zipped as a symlink is shown as one is known after
 * `readLinkTargets`, which sets `linkTarget` or turns `type` into `file`.
 */
export interface LeafNode extends NodeBase {
  readonly type: 'file' | 'symlink'
  readonly zippedAs: 'file' | 'symlink'
  readonly linkTarget: string | undefined
  readonly member: ZipMember
}

export type ArchiveNode = DirectoryNode | LeafNode

/** Path of a node relative to the root, which has the empty path. */
export function pathOf(node: ArchiveNode): string {
  const names: string[] = []
  for (let at = node; at.parent !== undefined; at = at.parent) names.push(at.name)
  return names.reverse().join('/')
}

/** All nodes below `root`, each directory before what it holds, in the order of the archive. */
export function* walkTree(root: DirectoryNode): Generator<ArchiveNode> {
  const rest: Iterator<ArchiveNode>[] = [root.children.values()]
  for (let top = rest.at(-1); top !== undefined; top = rest.at(-1)) {
    const next = top.next()
    if (next.done === true) rest.pop()
    else {
      yield next.value
      if (next.value.type === 'directory') rest.push(next.value.children.values())
    }
  }
}

/** The node at a path relative to `root`, or undefined. */
export function nodeAt(root: DirectoryNode, path: string): ArchiveNode | undefined {
  let node: ArchiveNode | undefined = root
  for (const name of path.split('/')) {
    if (name === '') continue
    node = node?.type === 'directory' ? node.children.get(name) : undefined
  }
  return node
}
