import { posix } from 'node:path'
import type { NodeId } from '../../domain/ids.ts'
import type { SessionContext } from './context.ts'

/** What tells of the nodes of the kernel. */
export type KnownNodes = Pick<SessionContext, 'drive' | 'ids' | 'lookups'>

/**
 * Path of a node of the kernel from the root of the drive, with a slash before it. What the drive makes up has no path
 * for it: there it is the one by which the kernel found the node. Undefined for a node that nothing is known of.
 */
export function pathOfNode(known: KnownNodes, node: NodeId): string | undefined {
  const { drive, ids, lookups } = known
  const path = drive.pathOf(ids.inDrive(node))
  if (path !== undefined) return `/${path}`
  const found = lookups.nameOf(node)
  const above = found && pathOfNode(known, found.parent)
  return above === undefined ? undefined : posix.join(above, found?.name ?? '')
}
