import { closeSync, openSync, readSync } from 'node:fs'
import { ifThereNow } from '../disk/if-there.ts'
import { listedAs } from '../domain/folder-names.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { PutIntent } from '../intents/intent.ts'
import { askForBag, askForFirstBytes } from '../service/has-bag.ts'
import type { KnownListing, UploaderDeps } from './ports.ts'

type ProofDeps = Pick<UploaderDeps, 'service' | 'listing' | 'outbox'>

/** A bag of the same length may be of another upload. So many bytes of it cost little more than the first one. */
const COMPARED_BYTES = 64 * 1024

/** What an id leads to that an upload was answered with: a bag that holds what was sent, another bag, or none. */
type Found = 'ours' | 'other' | 'none'

/**
 * Whether the bag is there that an upload was answered with, and holds what was sent. A listing that was asked for
 * since tells it, or a request for its first bytes, or a listing that is asked for now. Rejects when none of them can
 * be had.
 */
export async function lookForBag(
  deps: ProofDeps,
  put: PutIntent,
  bagId: BagId,
  signal: AbortSignal,
): Promise<Found> {
  if (put.isAtRisk === true) {
    // A download tells nothing: a bag that the account has no more may be there for others.
    return lists(await deps.listing.refreshNow(signal), put, bagId) ? 'ours' : 'none'
  }
  const current = deps.listing.current()
  const { confirmedAtMs = Infinity } = put
  if (current !== undefined && current.startedAtMs > confirmedAtMs && lists(current, put, bagId)) {
    return 'ours'
  }
  try {
    const isSame = await isSameBag(deps, put, bagId, signal)
    if (isSame !== undefined) return isSame ? 'ours' : 'other'
  } catch (error) {
    if (await isListedNow(deps, put, bagId, signal)) return 'ours'
    throw error
  }
  return (await isListedNow(deps, put, bagId, signal)) ? 'ours' : 'none'
}

/**
 * Whether a bag is what was sent, as far as a small request tells. Undefined when the service does not have it. The zip
 * of a folder may be made anew for each download, and one that went straight to the service is in no file.
 */
async function isSameBag(
  { service, outbox }: ProofDeps,
  put: PutIntent,
  bagId: BagId,
  signal: AbortSignal,
): Promise<boolean | undefined> {
  const { length: expected } = put.content
  const isLength = (length: number): boolean => length === expected
  const sent =
    put.isFolder === true
      ? undefined
      : ifThereNow(() => readFirst(outbox.contentPath(put.id)), 'Staged content cannot be read')
  if (sent === undefined) {
    const { isThere, length = expected } = await askForBag(service, bagId, { signal, isLength })
    return isThere ? length === expected : undefined
  }
  const found = await askForFirstBytes(service, bagId, COMPARED_BYTES, { signal, isLength })
  if (found === undefined) return undefined
  return (found.length ?? expected) === expected && found.bytes.equals(sent)
}

function readFirst(path: string): Buffer {
  const file = openSync(path, 'r')
  try {
    const buffer = Buffer.alloc(COMPARED_BYTES)
    return buffer.subarray(0, readSync(file, buffer, 0, COMPARED_BYTES, 0))
  } finally {
    closeSync(file)
  }
}

/** A service may list a bag that it does not hand out yet. */
async function isListedNow(
  { listing }: ProofDeps,
  put: PutIntent,
  bagId: BagId,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    return lists(await listing.refreshNow(signal), put, bagId)
  } catch (error) {
    if (!isDriveError(error) || error.code === 'interrupted') throw error
    return false
  }
}

function lists({ index }: KnownListing, put: PutIntent, bagId: BagId): boolean {
  return index.recordsOf(bagId).some(({ name }) => listedAs(name, put) !== undefined)
}

/** A service that keeps what is sent otherwise gets no more copies of it than this. */
const MOST_DISPROOFS = 3

/** Throws what waits for the person once further uploads would only fill the account. */
export function refuseDisproven({ name, disproofs = 0 }: PutIntent): void {
  if (disproofs < MOST_DISPROOFS) return
  throw new DriveError(
    'rejected',
    `The service keeps other content than was sent of "${name}": it was sent ${disproofs} times.`,
    { hint: 'bagfs ls shows what it keeps, and bagfs rm removes it; then bagfs outbox retry.' },
  )
}

/** For an id that no bag has, or a bag of another length. */
export function idOfNoBag(put: PutIntent): DriveError {
  if (put.isAtRisk === true) return takenByLateDelete(put)
  const words = `The service answered the upload of "${put.name}" with the id of no bag that holds it.`
  return new DriveError('bad-answer', words, { answerLost: true })
}

/** For a bag that had its id before, and is gone. */
export function takenByLateDelete({ name }: PutIntent): DriveError {
  const words = `"${name}" was stored, and a delete of an old version took it.`
  return new DriveError('bad-answer', words, { answerLost: true })
}
