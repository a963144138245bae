import { z } from 'zod'
import type { AttributeChanges, SpecialNode } from '../domain/attributes.ts'

const number = z.optional(z.number())

/** `AttributeChanges` as files of the state directory have them. An older version did not write all of them. */
export const attributeFields = {
  mode: z.exactOptional(z.number()),
  mtimeMs: z.exactOptional(z.number()),
  atimeMs: number,
  ctimeMs: number,
  uid: number,
  gid: number,
  extended: z.optional(z.record(z.string(), z.string())),
} satisfies Record<keyof AttributeChanges, z.ZodType>

/** Their names. */
export const ATTRIBUTE_NAMES = Object.keys(attributeFields) as readonly (keyof AttributeChanges)[]

/** `SpecialNode`, in the same files. */
export const specialNode = z.object({
  kind: z.enum(['fifo', 'socket', 'character-device', 'block-device']),
  device: z.number(),
}) satisfies z.ZodType<SpecialNode>

/** `KeptAttributes`, in the same way. */
export const keptFields = { ...attributeFields, mode: z.number(), mtimeMs: z.number() }
