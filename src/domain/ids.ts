import { createHash } from 'node:crypto'

declare const brand: unique symbol
type Branded<Base, Name extends string> = Base & { readonly [brand]: Name }

/** Identifies a bag at the service; on today's network 64 hex digits, but any non-empty text is taken. */
export type BagId = Branded<string, 'BagId'>
/** Identifies an intent in the outbox; ids sort in the order in which they were made. */
export type IntentId = Branded<string, 'IntentId'>
/** Identifies a node of the drive while it runs; 1 is the root. Never reused. */
export type NodeId = Branded<number, 'NodeId'>
/** Identifies an open file or directory while the drive runs; 1 to 2^31-1. */
export type HandleId = Branded<number, 'HandleId'>

export function toBagId(text: string): BagId {
  if (text === '') throw new RangeError('A bag id cannot be empty.')
  return text as BagId
}

const LONGEST_BAG_ID = 1024

/**
 * True for text that can be the id of a bag. It has 1 to 1,024 UTF-16 units, and no surrogate
 * without its other half, which no request can carry.
 */
export function isBagId(text: string): boolean {
  return text !== '' && text.length <= LONGEST_BAG_ID && !/\p{Surrogate}/u.test(text)
}

const HEX_64 = /^[0-9a-f]{64}$/

/** A file name for a bag: the id itself when it is 64 hex digits, else its SHA-256. Never has a slash. */
export function fileNameOf(bagId: BagId): string {
  return HEX_64.test(bagId) ? bagId : createHash('sha256').update(bagId).digest('hex')
}
