import { z } from 'zod'
import { DriveError, isDriveError, type DriveErrorCode } from '../domain/errors.ts'
import { toBagId, type BagId, type IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { keptFields, specialNode } from '../state/attribute-fields.ts'

const bagId = z
  .string()
  .min(1)
  .transform((text): BagId => toBagId(text))
const bagTime = z.object({ bagId, atMs: z.number() })
const intentId = z
  .string()
  .regex(/^\d{17}$/)
  .transform((text) => text as IntentId)
const optional = <Schema extends z.ZodType>(schema: Schema) => z.exactOptional(schema)
const movedTo = z.object({
  id: intentId,
  operations: optional(z.number()),
  isLost: optional(z.literal(true)),
})

const base = {
  version: z.literal(1),
  id: intentId,
  name: z.string().min(1),
  phase: z.enum(['held', 'local', 'waiting', 'confirmed']),
  createdAtMs: z.number(),
  placed: optional(intentId),
  replaces: z.array(bagId),
  supersedes: z.array(intentId),
  uploaded: optional(z.array(bagTime)),
  after: optional(z.array(movedTo)),
  deleted: optional(z.array(bagTime)),
  answeredAtMs: optional(z.number()),
  confirmedAtMs: optional(z.number()),
  heldUntilMs: optional(z.number()),
  failure: optional(
    z.object({
      // Written by this program from DriveErrorCode; a code of a newer version is only shown.
      code: z.string().transform((text) => text as DriveErrorCode),
      message: z.string(),
      atMs: z.number(),
      tries: z.number(),
      waitsForUser: z.boolean(),
    }),
  ),
}

const stagedContent = z.object({
  from: z.literal('staged'),
  length: z.number(),
  sha256: z.string(),
  allocated: optional(z.number()),
})

const putIntent = z.object({
  ...base,
  kind: z.literal('put'),
  description: z.string(),
  ...keptFields,
  content: z.discriminatedUnion('from', [
    stagedContent,
    z.object({ from: z.literal('bag'), bagId, length: optional(z.number()) }),
    z.object({ from: z.literal('folder'), length: optional(z.number()) }),
  ]),
  isFolder: optional(z.boolean()),
  special: optional(specialNode),
  changes: optional(
    z.object({ base: optional(bagId), start: z.number(), packed: optional(z.number()) }),
  ),
  restores: optional(bagId),
  restoresSha256: optional(z.string()),
  sentAtMs: optional(z.number()),
  lostUploads: optional(
    z.array(
      z.object({
        ...{ name: z.string().min(1), description: z.string() },
        ...{ content: stagedContent, sentAtMs: z.number(), namesakes: z.array(bagId) },
      }),
    ),
  ),
  namesakes: optional(z.array(bagId)),
  bagId: optional(bagId),
  uploadedAtMs: optional(z.number()),
  ownUploads: optional(z.array(bagTime)),
  isAtRisk: optional(z.boolean()),
  lookAtMs: optional(z.number()),
  timesTaken: optional(z.number()),
  disproofs: optional(z.number()),
  replacedAreDeleted: optional(z.boolean()),
})

const deleteIntent = z.object({
  ...base,
  kind: z.literal('delete'),
  movesOn: optional(z.union([bagId, intentId])),
})

const intent = z.discriminatedUnion('kind', [putIntent, deleteIntent])

/** By version: what makes an intent of the next version of it. Older ones are written anew when they change. */
const UPGRADES: readonly ((older: object) => object)[] = [
  // Version 0 did not say that it was one, and knew no intents that take the place of others.
  (older) => ({ supersedes: [], ...older, version: 1 }),
]

/** The last whole state that a file of states has. */
interface LastState {
  readonly intent: Intent
  /** How many states the file has; 0 where its end is not that of a state, and where an older version wrote it. */
  readonly states: number
  /** What is wrong with what was written last, where the intent is of before. */
  readonly torn?: unknown
}

/**
 * Parses `intent.json`: a state of the intent in each line, of which the last whole one counts. Throws as
 * `parseIntent` when none is whole.
 */
export function parseStates(text: string): LastState {
  const lines = text.split('\n').filter((line) => line !== '')
  let torn: unknown
  for (const line of lines.toReversed()) {
    try {
      const intent = parseIntent(line)
      const isWhole = torn === undefined && text.endsWith('\n')
      return { intent, states: isWhole ? lines.length : 0, ...(torn === undefined ? {} : { torn }) }
    } catch (error) {
      if (!isDriveError(error, 'corrupt')) throw error
      torn ??= error
    }
  }
  return { intent: parseIntent(text), states: 0 }
}

/**
 * Parses one state, also that of an older version. Throws DriveError `corrupt` when it is none, and
 * `unsupported` when a newer version wrote it.
 */
export function parseIntent(text: string): Intent {
  try {
    return intent.parse(upgraded(JSON.parse(text)))
  } catch (cause) {
    if (cause instanceof DriveError) throw cause
    throw new DriveError('corrupt', 'An intent in the outbox cannot be read.', { cause })
  }
}

function upgraded(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const version = 'version' in value ? value.version : 0
  if (typeof version !== 'number' || !Number.isInteger(version) || version < 0) return value
  if (version > UPGRADES.length) {
    throw new DriveError(
      'unsupported',
      'A newer version of bagfs wrote the outbox; use that one, which knows what waits in it.',
    )
  }
  return UPGRADES.slice(version).reduce((older, upgrade) => upgrade(older), value)
}

/** A state as it is written into `intent.json`. */
export function formatIntent(value: Intent): string {
  return `${JSON.stringify(value)}\n`
}
