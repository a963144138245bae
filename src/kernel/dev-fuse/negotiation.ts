import { INIT_IN, INIT_IN_MORE, INIT_OUT } from './structures.ts'
import { TIME_GRANULARITY_NS } from './wire-time.ts'

const MAJOR = 7
const OLDEST_MINOR = 31
/** What follows in later versions is not asked for, and so never comes. */
const NEWEST_MINOR = 40
const EXPIRY_MINOR = 38

const PAGE_BYTES = 4096
/** The most that the kernel lets one request carry, unless root allows more. */
const MAX_PAGES = 256
/** Longest content of a WRITE, and of a READ. */
export const MAX_TRANSFER_BYTES = MAX_PAGES * PAGE_BYTES
/** A request of the longest WRITE: its structures, and the page that the kernel rounds up to. */
export const LONGEST_REQUEST_BYTES = MAX_TRANSFER_BYTES + PAGE_BYTES

/**
 * Capabilities that are used where the kernel has them. ASYNC_DIO is none of them: with it the kernel lets a program that
 * reads around the page cache wait for an answer even when it is killed.
 */
const WANTED =
  (1 << 0) | // ASYNC_READ: reading ahead in several requests at a time
  (1 << 3) | // ATOMIC_O_TRUNC: OPEN truncates, without a SETATTR before it
  (1 << 5) | // BIG_WRITES
  (1 << 13) | // DO_READDIRPLUS
  (1 << 14) | // READDIRPLUS_AUTO: only where programs ask for attributes too
  (1 << 18) | // PARALLEL_DIROPS
  (1 << 22) // MAX_PAGES

/** INIT has a second word of flags. */
const INIT_EXT = 1 << 30
/** PASSTHROUGH, in the second word: the kernel reads files of the local disk by itself. */
const PASSTHROUGH = 1 << 5
/** Such files may not lie on a file system that itself stands on another one; others may stand on this one. */
const STACK_DEPTH = 1

const MAX_BACKGROUND = 64
const CONGESTION_THRESHOLD = 48

/** What the kernel and this agree on. */
export interface Agreed {
  readonly answer: Buffer
  readonly hasPassthrough: boolean
}

/** The answer to INIT; undefined for a kernel that is too old. */
export function negotiate(
  init: Buffer,
  wanted: { readonly passthrough: boolean },
): Agreed | undefined {
  const { major, minor, maxReadahead, flags } = INIT_IN.decode(init)
  if (major < MAJOR || (major === MAJOR && minor < OLDEST_MINOR)) return undefined
  const hasPassthrough = wanted.passthrough && (secondFlagsOf(init, flags) & PASSTHROUGH) !== 0
  const answer = INIT_OUT.encode({
    major: MAJOR,
    // A kernel of a later major version asks again with this one.
    minor: major > MAJOR ? NEWEST_MINOR : Math.min(minor, NEWEST_MINOR),
    maxReadahead,
    flags: ((flags & WANTED) | (hasPassthrough ? INIT_EXT : 0)) >>> 0,
    maxBackground: MAX_BACKGROUND,
    congestionThreshold: CONGESTION_THRESHOLD,
    maxWrite: MAX_TRANSFER_BYTES,
    timeGranularityNs: TIME_GRANULARITY_NS,
    maxPages: MAX_PAGES,
    flags2: hasPassthrough ? PASSTHROUGH : 0,
    maxStackDepth: hasPassthrough ? STACK_DEPTH : 0,
  })
  return { answer, hasPassthrough }
}

function secondFlagsOf(init: Buffer, flags: number): number {
  return (flags & INIT_EXT) === 0 ? 0 : INIT_IN_MORE.decode(init, INIT_IN.size).flags2
}

/** True when the kernel goes on after this answer, and does not ask again with another version. */
export function isNegotiated(init: Buffer): boolean {
  return INIT_IN.decode(init).major === MAJOR
}

/** True when INVAL_ENTRY can let a name expire, and need not take it away. */
export function knowsExpiry(init: Buffer): boolean {
  return INIT_IN.decode(init).minor >= EXPIRY_MINOR
}
