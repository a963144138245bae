import type { NodeId } from '../../domain/ids.ts'
import type { Lookups } from './lookups.ts'
import type { OpcodeName } from './opcodes.ts'
import type { KernelRequest } from './request.ts'
import { RENAME_IN } from './structures.ts'

/**
 * Directories that the kernel may keep locked while a request waits: those of the names that it is about, and what has
 * these names where that is a directory. To be called while the body is whole.
 */
export function heldDirectories(
  lookups: Lookups,
  operation: OpcodeName,
  { node, body, name, newName }: KernelRequest,
): readonly NodeId[] {
  const held = new Set([node])
  const add = (parent: NodeId, child: string | undefined): void => {
    held.add(parent)
    const found = child === undefined ? undefined : lookups.at({ parent, name: child })
    if (found !== undefined) held.add(found)
  }
  add(node, name)
  const hasTwo = operation === 'RENAME' || operation === 'RENAME2'
  if (hasTwo && body.length >= RENAME_IN.size) {
    add(RENAME_IN.decode(body).newParent as NodeId, newName)
  }
  return [...held]
}
