import { z } from 'zod'
import type { AttributeChanges } from '../domain/attributes.ts'
import { toBagId, type BagId } from '../domain/ids.ts'
import { attributeFields } from '../state/attribute-fields.ts'

/** Content of a bag that was deleted, and what it was. Times are in milliseconds since the epoch. */
export interface TrashItem extends AttributeChanges {
  readonly bagId: BagId
  /** The name that it had in the drive, before it is coded for a kernel. */
  readonly name: string
  readonly why: 'deleted' | 'replaced'
  readonly isFolder: boolean
  /** In bytes. */
  readonly length: number
  /** 64 hex digits, where the content is known by it. */
  readonly sha256?: string
  readonly description: string
  readonly mtimeMs: number
  readonly deletedAtMs: number
}

const itemFile = z.object({
  bagId: z.string().min(1).transform(toBagId),
  name: z.string(),
  why: z.enum(['deleted', 'replaced']),
  isFolder: z.boolean(),
  length: z.number().int().nonnegative(),
  sha256: z.exactOptional(z.string().regex(/^[0-9a-f]{64}$/)),
  description: z.string(),
  ...attributeFields,
  mtimeMs: z.number(),
  deletedAtMs: z.number(),
})

export function formatItem(item: TrashItem): string {
  return `${JSON.stringify(item)}\n`
}

/** Undefined for text that is no item: a kill can leave half of one. */
export function parseItem(text: string): TrashItem | undefined {
  return itemFile.safeParse(parseJson(text)).data
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

/** What an item is called to people, beside its name: enough of its bag id. */
export function shortIdOf({ bagId }: { readonly bagId: string }): string {
  return bagId.slice(0, 8)
}

/** The newest first. */
export function newestFirst(one: TrashItem, other: TrashItem): number {
  return other.deletedAtMs - one.deletedAtMs || (one.bagId < other.bagId ? -1 : 1)
}
