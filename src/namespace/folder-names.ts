import { listedAs, type FolderNaming } from '../domain/folder-names.ts'
import type { Intent } from '../intents/intent.ts'
import type { ListingIndex } from './listing-index.ts'

/** How the service names folders, by the records of those that it confirmed to us; undefined without any. */
export function findFolderNames(
  index: ListingIndex,
  intents: readonly Intent[],
): FolderNaming | undefined {
  for (const intent of intents) {
    if (intent.kind !== 'put' || intent.isFolder !== true || intent.bagId === undefined) continue
    for (const record of index.recordsOf(intent.bagId)) {
      const names = listedAs(record.name, intent)
      if (names !== undefined) return names
    }
  }
  return undefined
}
