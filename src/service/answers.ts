import { z } from 'zod'
import { isBagId, toBagId, type BagId } from '../domain/ids.ts'
import type { Account, BagRecord } from '../domain/record.ts'

/** Most UTF-16 units of each field: far more than any honest answer has, and little enough to be handled. */
const LONGEST_NUMBER = 64
const LONGEST_UID = 1024
const LONGEST_NAME = 64 * 1024
const LONGEST_DESCRIPTION = 64 * 1024
/** Of a name that is told in the log. */
const LONGEST_TOLD = 256

/** Numbers are taken as such and as text; anything else is no number. */
const number = z.union([
  z.number(),
  z
    .string()
    .max(LONGEST_NUMBER)
    .trim()
    .regex(/^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i)
    .transform(Number),
])
const optionalNumber = number.nullish().catch(undefined)
const bagId = z
  .string()
  .refine(isBagId, 'It is no id that a request could carry.')
  .transform(toBagId)

const fileRecord = z.object({
  bag_id: bagId,
  // An imported bag may have no name; its id stands in, so that it is not hidden.
  filename: z.union([z.string().max(LONGEST_NAME), z.number().transform(String)]).nullish(),
  size: optionalNumber,
  uploaded_at: optionalNumber,
  description: z.string().nullish().catch(''),
})
const user = z.object({
  uid: z.union([z.string().max(LONGEST_UID), z.number().transform(String)]),
  space_left: number.refine(Number.isFinite),
  capacity: number.refine(Number.isFinite),
})
const uploaded = z.object({
  bag_id: bagId.refine((text) => isOneSegment(text), 'It is no id that a bag could be fetched by.'),
})
const deleted = z.object({ success: z.boolean() })
const added = z.object({ message: z.string() })

/** A record of the listing that cannot be used, in words. */
export interface SkippedRecord {
  readonly index: number
  /** `filename` or `bag_id` when there is one. */
  readonly name: string
  readonly reason: string
}

export interface ParsedRecords {
  readonly records: readonly BagRecord[]
  readonly skipped: readonly SkippedRecord[]
}

/** Reads elements of the answer of `files_list`. */
export function parseListing(items: readonly unknown[]): ParsedRecords {
  const records: BagRecord[] = []
  const skipped: SkippedRecord[] = []
  items.forEach((item, index) => {
    const parsed = fileRecord.safeParse(item)
    if (parsed.success) records.push(toRecord(parsed.data))
    else skipped.push({ index, name: nameOf(item), reason: reasonOf(parsed.error) })
  })
  return { records, skipped }
}

/** Reads the answer of `/api/user`; undefined when it lacks something. */
export function parseAccount(json: unknown): Account | undefined {
  const parsed = user.safeParse(json)
  if (!parsed.success) return undefined
  const { uid, space_left, capacity } = parsed.data
  return { uid, spaceLeft: Math.max(0, space_left), capacity: Math.max(0, capacity) }
}

/** Words and paths are no ids. A listing may have odd ones all the same; nothing is lost for it. */
function isOneSegment(text: string): boolean {
  return !/[\s/\\\p{Cc}]/u.test(text) && text !== '.' && text !== '..'
}

/** Reads the answer of an upload; undefined when it names no bag. */
export function parseUploaded(json: unknown): BagId | undefined {
  const parsed = uploaded.safeParse(json)
  return parsed.success ? parsed.data.bag_id : undefined
}

/** True for the answer of an import that was done; an error that comes with status 200 has no message. */
export function isAdded(json: unknown): boolean {
  return added.safeParse(json).success
}

/** Reads the answer of a delete; undefined when it does not say how it went. */
export function parseDeleted(json: unknown): boolean | undefined {
  const parsed = deleted.safeParse(json)
  return parsed.success ? parsed.data.success : undefined
}

function toRecord(wire: z.infer<typeof fileRecord>): BagRecord {
  return {
    bagId: wire.bag_id,
    name: wire.filename ?? wire.bag_id,
    size: toSize(wire.size),
    uploadedAtMs: toMilliseconds(wire.uploaded_at),
    description: wire.description?.slice(0, LONGEST_DESCRIPTION) ?? '',
  }
}

function toSize(size: number | null | undefined): number | undefined {
  return Number.isSafeInteger(size) && (size ?? -1) >= 0 ? (size ?? undefined) : undefined
}

/** Seconds since the epoch stay below this until the year 5138. */
const LEAST_MILLISECONDS = 1e11
/** The last moment that a JavaScript Date can hold. */
const LAST_MILLISECOND = 8.64e15

function toMilliseconds(time: number | null | undefined): number {
  if (time === null || time === undefined || !(time > 0)) return 0
  const ms = Math.round(time > LEAST_MILLISECONDS ? time : time * 1000)
  return ms <= LAST_MILLISECOND ? ms : 0
}

function nameOf(item: unknown): string {
  if (typeof item !== 'object' || item === null) return JSON.stringify(item).slice(0, LONGEST_TOLD)
  const { filename, bag_id } = item as { filename?: unknown; bag_id?: unknown }
  const isTold = (part: unknown): part is string => typeof part === 'string' && part !== ''
  return [filename, bag_id].find(isTold)?.slice(0, LONGEST_TOLD) ?? ''
}

function reasonOf(error: z.ZodError): string {
  return error.issues.map(({ path, message }) => [path.join('.'), message].join(': ')).join('; ')
}
