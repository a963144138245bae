import { listedAs } from '../domain/folder-names.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { PutIntent } from '../intents/intent.ts'
import { askForBag } from '../service/has-bag.ts'
import type { KnownListing, UploaderDeps } from './ports.ts'

type ProofDeps = Pick<UploaderDeps, 'service' | 'listing'>

/**
 * Whether the bag is there that an upload was answered with. A listing that was asked for since
 * tells it, or a request for its first byte, or a listing that is asked for now. Rejects when none
 * of them can be had.
 */
export async function lookForBag(
  deps: ProofDeps,
  put: PutIntent,
  bagId: BagId,
  signal: AbortSignal,
): Promise<boolean> {
  const current = deps.listing.current()
  const { confirmedAtMs = Infinity } = put
  if (current !== undefined && current.startedAtMs > confirmedAtMs && lists(current, put, bagId)) {
    return true
  }
  try {
    const { isThere, length = put.content.length } = await askForBag(deps.service, bagId, {
      signal,
    })
    if (isThere) return length === put.content.length
  } catch (error) {
    if (await isListedNow(deps, put, bagId, signal)) return true
    throw error
  }
  return isListedNow(deps, put, bagId, signal)
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

/** For an id that no bag has, or a bag of another length. */
export function idOfNoBag({ name }: PutIntent): DriveError {
  return new DriveError(
    'bad-answer',
    `The service answered the upload of "${name}" with the id of no bag that holds it.`,
    { answerLost: true },
  )
}
