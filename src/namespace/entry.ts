import type { PutIntent } from '../intents/intent.ts'
import type { BagRecord } from '../domain/record.ts'

/** A bag under the name that the drive shows. */
export interface BagEntry {
  readonly shown: string
  readonly kind: 'bag'
  readonly record: BagRecord
}

/** Content that the service does not have yet. */
export interface PendingEntry {
  readonly shown: string
  readonly kind: 'pending'
  readonly intent: PutIntent
  readonly record?: undefined
}

/** A name in the root of the drive and what is behind it. */
export type Entry = BagEntry | PendingEntry

/** Something to be shown, with the name that it has when nothing else wants that name. */
export type Candidate = { readonly plain: string } & (
  | { readonly kind: 'bag'; readonly record: BagRecord }
  | { readonly kind: 'pending'; readonly intent: PutIntent }
)

export function toEntry(candidate: Candidate, shown: string): Entry {
  return candidate.kind === 'bag'
    ? { shown, kind: 'bag', record: candidate.record }
    : { shown, kind: 'pending', intent: candidate.intent }
}

/** Puts the newest first: pending content, then bags by upload time. A total order over all fields. */
export function newestFirst(one: Candidate, other: Candidate): number {
  if (one.kind === 'pending')
    return other.kind === 'pending' ? later(one.intent.id, other.intent.id) : -1
  return other.kind === 'pending' ? 1 : newerRecord(one.record, other.record)
}

function newerRecord(one: BagRecord, other: BagRecord): number {
  return (
    other.uploadedAtMs - one.uploadedAtMs ||
    later(one.bagId, other.bagId) ||
    later(one.name, other.name) ||
    (other.size ?? -1) - (one.size ?? -1) ||
    later(one.description, other.description)
  )
}

/** Negative when `one` comes later in the order of UTF-16 units, which no locale changes. */
function later(one: string, other: string): number {
  return one > other ? -1 : one < other ? 1 : 0
}
