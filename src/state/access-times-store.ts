import { z } from 'zod'
import type { Logger } from '../domain/logger.ts'
import { PerFolderStore } from './per-folder-store.ts'

const accessTime = z.object({ path: z.string().min(1), atimeMs: z.number() })

/** A path in a folder, and when that was read last. */
export type AccessTime = Readonly<z.infer<typeof accessTime>>

export type AccessTimesStore = PerFolderStore<AccessTime>

export function openAccessTimes(
  deps: { readonly log: Logger },
  options: { readonly dir: string },
): Promise<AccessTimesStore> {
  const words = 'When files in folders were read last'
  const kind = { fileName: 'access-times.json', schema: accessTime, words }
  return PerFolderStore.open<AccessTime>(kind, deps, options)
}
