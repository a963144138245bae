import { isDriveError } from '../domain/errors.ts'
import { withoutZip } from '../domain/folder-names.ts'
import { encodeName } from '../domain/names.ts'
import type { Logger } from '../domain/logger.ts'
import type { TrashItem } from '../trash/item.ts'
import type { Trash } from '../trash/trash.ts'
import { openArchive } from '../zip/archive.ts'
import { fileSource } from '../zip/source.ts'
import { nodeAt } from '../zip/tree.ts'

/** Of a folder that changes all the time, so many versions are looked into. */
const MOST_VERSIONS = 20
const LIMITS = { maxTreeBytes: 64 * 1024 * 1024 }

interface TrashedDeps {
  readonly trash: Pick<Trash, 'files'>
  readonly log: Logger
}

/** The newest of these items that is a folder of the name `top`, as it shows, and has something at the path `inside`; none where there is none. */
export async function trashedWith(
  deps: TrashedDeps,
  items: readonly TrashItem[],
  { top, inside }: { readonly top: string; readonly inside: string },
): Promise<readonly TrashItem[]> {
  const versions = items.filter(
    ({ isFolder, name }) =>
      isFolder && [name, withoutZip(name)].some((each) => encodeName(each) === top),
  )
  for (const item of versions.slice(0, MOST_VERSIONS)) {
    if (await hasInside(deps, item, inside)) return [item]
  }
  return []
}

async function hasInside(
  { trash, log }: TrashedDeps,
  { bagId, name }: TrashItem,
  inside: string,
): Promise<boolean> {
  try {
    const source = await fileSource(trash.files.contentPath(bagId))
    try {
      const archive = await openArchive(source, { limits: LIMITS, folderName: withoutZip(name) })
      return nodeAt(archive.root, inside) !== undefined
    } finally {
      await source.close()
    }
  } catch (error) {
    if (!isDriveError(error)) throw error
    log.debug({ bagId, error: error.message }, 'What is in a folder of the trash is not known.')
    return false
  }
}
