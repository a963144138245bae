import type { BagCache } from '../content/bag-cache.ts'
import type { BagId, NodeId } from '../domain/ids.ts'
import type { Entry } from '../namespace/entry.ts'
import type { OpenFolders } from './folders/open-folders.ts'
import type { Nodes } from './tree/nodes.ts'

interface Places {
  readonly nodes: Nodes
  readonly openFolders: OpenFolders
  readonly cache: Pick<BagCache, 'heldOf'>
}

/** Whether a file can be read without asking the service. True of what the drive makes up. */
export async function isHere(places: Places, id: NodeId): Promise<boolean> {
  const bagId = await bagBehind(places, id)
  return bagId === undefined || places.cache.heldOf(bagId).isComplete
}

/** The bag that the bytes of a file come from; undefined when they are on this machine. */
async function bagBehind({ nodes, openFolders }: Places, id: NodeId): Promise<BagId | undefined> {
  const node = nodes.inRoot(id)
  if (node !== undefined) {
    return node.hasUnpromised || node.entry === undefined ? undefined : bagOfEntry(node.entry)
  }
  if (nodes.get(id)?.home !== 'folders') return undefined
  const { open, item } = await openFolders.placeOf(id)
  if (item.type !== 'file' || item.content.from === 'local') return undefined
  return open.folder.bagOf(item.content.archive)
}

function bagOfEntry(entry: Entry): BagId | undefined {
  if (entry.kind === 'bag') return entry.record.bagId
  const { content } = entry.intent
  return content.from === 'bag' ? content.bagId : undefined
}
