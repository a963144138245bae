import { linkOrCopy } from '../disk/link-or-copy.ts'
import type { KeptAttributes } from '../domain/attributes.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { Intent, PutIntent } from '../intents/intent.ts'
import type { TrashItem } from '../trash/item.ts'
import type { TrashFiles } from '../trash/trash-files.ts'
import type { Outbox } from './outbox.ts'

/** What a put has that brings something back from the trash, beside its name and mode. */
type Restored = Pick<
  PutIntent,
  | 'content'
  | 'description'
  | 'restores'
  | 'isFolder'
  | 'changes'
  | Exclude<keyof KeptAttributes, 'mode' | 'ctimeMs'>
>

/**
 * Copies an item of the trash to a draft, and answers what its put has. The zip of a folder gets a second name: programs look
 * into it, and change it, while no service has it. Rejects as `TrashFiles.copyTo`.
 */
export async function stageRestored(
  { outbox, files }: { readonly outbox: Outbox; readonly files: TrashFiles },
  item: TrashItem,
  id: IntentId,
): Promise<Restored> {
  const { bagId, isFolder, length, description, mtimeMs, atimeMs, uid, gid } = item
  const sha256 = await files.copyTo(item, outbox.contentPath(id))
  if (isFolder) await linkOrCopy(outbox.contentPath(id), outbox.basePath(id))
  return {
    ...{ description, mtimeMs, atimeMs, uid, gid },
    content: { from: 'staged', length, sha256 },
    restores: bagId,
    ...(isFolder ? { isFolder, changes: { base: bagId, start: 0 } } : {}),
  }
}

/** What is on its way back from the trash: the outbox has it, nothing has taken its place, and the service does not have it. */
export function onWayBack(intents: readonly Intent[]): ReadonlySet<BagId> {
  const superseded = new Set(intents.flatMap(({ supersedes }) => supersedes))
  const bags = new Set<BagId>()
  for (const intent of intents) {
    if (intent.kind !== 'put' || intent.phase === 'confirmed') continue
    if (intent.restores !== undefined && !superseded.has(intent.id)) bags.add(intent.restores)
  }
  return bags
}

/** The bag of the trash whose content the service has again by this intent, as far as that tells. */
export function broughtBack(
  intent: Intent | undefined,
): { bagId: BagId; sha256: string } | undefined {
  if (intent?.kind !== 'put' || intent.phase !== 'confirmed') return undefined
  const { restores, content } = intent
  if (restores === undefined || content.from !== 'staged') return undefined
  return { bagId: restores, sha256: content.sha256 }
}
