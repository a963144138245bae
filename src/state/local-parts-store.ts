import { z } from 'zod'
import type { Logger } from '../domain/logger.ts'
import { attributeFields, keptFields, specialNode } from './attribute-fields.ts'
import { PerFolderStore } from './per-folder-store.ts'

const localPart = z.object({
  path: z.string().min(1),
  special: z.exactOptional(z.object({ ...specialNode.shape, ...keptFields })),
  extended: attributeFields.extended,
})

/** A path in a folder, and what this machine has of it: a node, or extended attributes of what is there. */
export type LocalPart = Readonly<z.infer<typeof localPart>>

export type LocalPartsStore = PerFolderStore<LocalPart>

export function openLocalParts(
  deps: { readonly log: Logger },
  options: { readonly dir: string },
): Promise<LocalPartsStore> {
  const words = 'What this machine has of folders'
  const kind = { fileName: 'local-parts.json', schema: localPart, words }
  return PerFolderStore.open<LocalPart>(kind, deps, options)
}
