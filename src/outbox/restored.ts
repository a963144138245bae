import { sha256OfFile } from '../disk/file-hash.ts'
import { ifThere } from '../disk/if-there.ts'
import { linkOrCopy } from '../disk/link-or-copy.ts'
import type { KeptAttributes } from '../domain/attributes.ts'
import { DriveError } from '../domain/errors.ts'
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
  | 'restoresSha256'
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
  const { bagId, isFolder, length, description, mtimeMs, atimeMs, uid, gid, extended } = item
  const sha256 = await files.copyTo(item, outbox.contentPath(id))
  if (isFolder) await linkOrCopy(outbox.contentPath(id), outbox.basePath(id))
  return {
    ...{ description, mtimeMs, atimeMs, uid, gid, extended },
    content: { from: 'staged', length, sha256 },
    restores: bagId,
    restoresSha256: sha256,
    ...(isFolder ? { isFolder, changes: { base: bagId, start: 0 } } : {}),
  }
}

/** What is on its way back from the trash: the outbox has it, nothing has taken its place, and the service does not have it. */
export function onWayBack(intents: readonly Intent[]): ReadonlySet<BagId> {
  const superseded = new Set(intents.flatMap(({ supersedes }) => supersedes))
  const bags = new Set<BagId>()
  for (const intent of intents) {
    if (intent.kind !== 'put' || intent.phase === 'confirmed' || intent.phase === 'local') continue
    if (intent.restores !== undefined && !superseded.has(intent.id)) bags.add(intent.restores)
  }
  return bags
}

/**
 * The item of the trash whose content the service has again by this intent; what was changed meanwhile is not that. Equal
 * content may be given the same id: then the bag may have been deleted once more, later.
 */
export function broughtBack(
  intent: Intent | undefined,
  itemOf: (bagId: BagId) => TrashItem | undefined,
): TrashItem | undefined {
  if (intent?.kind !== 'put' || intent.phase !== 'confirmed') return undefined
  const { restores, restoresSha256, content, createdAtMs } = intent
  if (restores === undefined || content.from !== 'staged') return undefined
  const item = content.sha256 === restoresSha256 ? itemOf(restores) : undefined
  return item !== undefined && item.deletedAtMs <= createdAtMs ? item : undefined
}

/** True while a folder is made of what came back from the trash: the service does not have that, and the outbox does. */
export function isMadeOfRestored({ restores, changes }: PutIntent): boolean {
  return restores !== undefined && changes?.base === restores
}

/** Where the zip lies that such a folder is made of; undefined when it is not there as it was. Rejects `local-io`. */
export async function restoredBase(
  outbox: Pick<Outbox, 'basePath'>,
  { id, restoresSha256 }: PutIntent,
): Promise<string | undefined> {
  const path = outbox.basePath(id)
  const sha256 = await ifThere(sha256OfFile(path), 'What came back from the trash cannot be read')
  const isWhole = sha256 !== undefined && (restoresSha256 ?? sha256) === sha256
  return isWhole ? path : undefined
}

/** Nothing is sent of such a folder, and the trash has it as it was. */
export function damagedBase({ name }: PutIntent, cause: unknown): DriveError {
  return new DriveError(
    'corrupt',
    `What the outbox has of ${name} is damaged: it cannot be stored.`,
    {
      cause,
      hint: 'bagfs outbox discard forgets it. The trash has it as it was: bagfs trash restore.',
    },
  )
}
