import { DriveError } from '../domain/errors.ts'
import type { NodeId } from '../domain/ids.ts'
import type { Attributes } from './tree/attributes.ts'
import { ROOT, type FileNode, type Nodes } from './tree/nodes.ts'

/** How names are found, and where links lead. */
export interface Walk {
  lookup(parent: NodeId, name: string): Promise<Attributes>
  readSymlink(node: NodeId): Promise<string>
}

/** What lies in the root on the way to a path: a folder is one bag. Rejects `usage` for what the drive makes up. */
export async function findTop(
  names: readonly string[],
  walk: Walk,
  nodes: Nodes,
): Promise<FileNode> {
  let at = ROOT
  for (const name of names) at = (await walk.lookup(at, name)).node
  const top = nodes.get(at)?.top
  if (top !== undefined) return top
  throw new DriveError('usage', `The drive makes up ${names.join('/')}: there is nothing to fetch.`)
}
