import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { PutIntent } from '../intents/intent.ts'
import { explainRefusal, type Refused } from './account-room.ts'
import { IntentsOfThen } from './intents-of-then.ts'
import { isOfOther, isOurs } from './lost-answer.ts'
import { knownUpload } from './latest-upload.ts'
import type { Try, UploaderDeps } from './ports.ts'
import { idOfNoBag, lookForBag } from './proof.ts'

/** What is uploaded: a file, or pieces that are in none. */
export interface Sent {
  readonly path: string
  readonly length: number
  readonly pieces?: () => AsyncGenerator<Uint8Array>
}

type SendDeps = UploaderDeps & {
  /** Writes down that the service may have the content. */
  readonly mayHave: (put: PutIntent) => Promise<unknown>
  /** Writes down that it was answered with the id of a bag that holds something else. */
  readonly disprove: (put: PutIntent) => Promise<unknown>
  /** True while a DELETE of here that was not answered may still take a bag that is given the id. */
  readonly mayBeDeleted: (bagId: BagId) => boolean
  /** Ids that were answered to uploads which are not confirmed yet. */
  readonly answered: Map<BagId, IntentId>
}

/** The id that an upload was answered with; `isProven` when its bag was seen since, and is not at risk. */
interface Answered {
  readonly bagId: BagId
  readonly isProven: boolean
  /** True for a bag that a DELETE from before may take, see `PutIntent`. */
  readonly isAtRisk: boolean
  /** For the id of a bag that was there before: when that was uploaded, as far as is known. */
  readonly givenBeforeMs: number | undefined
}

/** Sends content to the service: answers the bag that holds it now, and rejects with what stood against that. */
export async function send(
  deps: SendDeps,
  put: PutIntent,
  what: Sent,
  attempt: Try,
): Promise<Answered> {
  const then = new IntentsOfThen(deps.outbox)
  const before = knownBefore(deps, put, then)
  try {
    const bagId = await sendWithRoom(deps, put, what, attempt)
    deps.onStep?.('upload.answered')
    const isKnown = before.isKnown(bagId) || isOfOtherNow(deps, put, bagId)
    if (!isKnown) deps.answered.set(bagId, put.id)
    const isSeen = isKnown
      ? await requireOurs(deps, put, bagId, attempt.signal)
      : put.replaces.length > 0 && (await requireThere(deps, put, bagId, attempt.signal))
    const isAtRisk = before.isOfOtherMachine(bagId) || deps.mayBeDeleted(bagId)
    const givenBeforeMs = isKnown ? before.uploadedAtMs(bagId) : undefined
    return { bagId, isProven: isSeen && !isAtRisk, isAtRisk, givenBeforeMs }
  } catch (error) {
    if (isDriveError(error) && error.facts.answerLost === true) {
      attempt.onAnswerLost()
      await deps.mayHave(put)
    }
    throw error
  } finally {
    then.close()
  }
}

/** What is known of bags before an upload. */
interface KnownBefore {
  /** A service that stores equal content once answers the id of such a bag, and so does one that is wrong. */
  isKnown(bagId: BagId): boolean
  /**
   * True for a listed bag that no change of this machine made or took away. Where it is replaced together with a later
   * one, the machine that made the later one may not have deleted it yet.
   */
  isOfOtherMachine(bagId: BagId): boolean
  /** See `knownUpload`. */
  uploadedAtMs(bagId: BagId): number
}

function knownBefore(
  { listing, facts }: SendDeps,
  put: PutIntent,
  then: IntentsOfThen,
): KnownBefore {
  const index = listing.current()?.index
  const isListed = (bagId: BagId): boolean => (index?.recordsOf(bagId).length ?? 0) > 0
  const isMeant = (bagId: BagId): boolean => put.replaces.includes(bagId)
  const isOfChange = (bagId: BagId): boolean => isOfOther(then.ofBag(bagId), put, bagId)
  return {
    isKnown: (bagId) =>
      isMeant(bagId) || isOfChange(bagId) || facts.get(bagId) !== undefined || isListed(bagId),
    isOfOtherMachine: (bagId) => {
      if (!isListed(bagId)) return false
      if (!isMeant(bagId)) return !isOfChange(bagId)
      return put.replaces.some((other) => other !== bagId && isListed(other))
    },
    uploadedAtMs: (bagId) => knownUpload(index, then.intents(), bagId),
  }
}

/** True for an id that another upload was answered meanwhile. */
function isOfOtherNow({ answered, outbox }: SendDeps, put: PutIntent, bagId: BagId): boolean {
  const first = answered.get(bagId)
  return (first !== undefined && first !== put.id) || isOfOther(outbox.ofBag(bagId), put, bagId)
}

/** Throws for a bag that holds other content: nothing is stored in it, and nothing is deleted for it. */
async function requireOurs(
  deps: SendDeps,
  put: PutIntent,
  bagId: BagId,
  signal: AbortSignal,
): Promise<true> {
  let cause: unknown
  try {
    if (await isOurs(deps, put, bagId, { signal, isVouched: true })) return true
  } catch (error) {
    cause = error
  }
  throw new DriveError(
    'bad-answer',
    `The service answered the upload of "${put.name}" with the id of a bag that was there before.`,
    { answerLost: true, ...(cause === undefined ? {} : { cause }) },
  )
}

/**
 * What takes the place of a bag is looked for at once. Throws for the id of no bag, or of a bag of
 * another length. False when the service does not say.
 */
async function requireThere(
  deps: SendDeps,
  put: PutIntent,
  bagId: BagId,
  signal: AbortSignal,
): Promise<boolean> {
  const seen = await lookForBag(deps, put, bagId, signal).catch((error: unknown) => {
    deps.log.debug({ bagId, error: String(error) }, 'Whether a new bag is there is not known.')
    return undefined
  })
  if (seen === undefined || seen === 'ours') return seen === 'ours'
  if (seen === 'other') await deps.disprove(put)
  throw idOfNoBag(put)
}

/** A refusal counts once the service had told before it that there is room. */
async function sendWithRoom(
  deps: SendDeps,
  put: PutIntent,
  what: Sent,
  attempt: Try,
): Promise<BagId> {
  const explain = (error: unknown): Promise<Refused> =>
    explainRefusal(deps, error, { length: what.length, signal: attempt.signal })
  try {
    return await sendOnce(deps, put, what, attempt)
  } catch (error) {
    const refused = await explain(error)
    if (!refused.hasRoom) throw refused.error
  }
  try {
    return await sendOnce(deps, put, what, attempt)
  } catch (error) {
    throw (await explain(error)).error
  }
}

function sendOnce(
  { service, onStep }: SendDeps,
  put: PutIntent,
  { path, length, pieces }: Sent,
  { signal, onProgress }: Try,
): Promise<BagId> {
  onStep?.('upload.begin')
  const upload = put.isFolder === true ? service.uploadFolder : service.uploadFile
  return upload.call(
    service,
    {
      ...{ path, length },
      ...(pieces === undefined ? {} : { pieces }),
      name: put.name,
      description: put.description,
    },
    { signal, onProgress },
  )
}
