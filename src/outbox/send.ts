import { DriveError, isDriveError } from '../domain/errors.ts'
import type { Growth } from '../domain/growth.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { PutIntent } from '../intents/intent.ts'
import { askForBag, type BagThere } from '../service/has-bag.ts'
import { explainRefusal, type Refused } from './account-room.ts'
import { bagsOfOthers, isOurs } from './lost-answer.ts'
import type { Try, UploaderDeps } from './ports.ts'

/** The file of an upload, and how it grows where it still does. */
export interface Sent {
  readonly path: string
  readonly length: number
  readonly growth?: Growth
  readonly pieces?: () => AsyncGenerator<Uint8Array>
}

type SendDeps = UploaderDeps & {
  /** Writes down that the service may have the content. */
  readonly mayHave: (put: PutIntent) => Promise<unknown>
  /** Ids that were answered to uploads which are not confirmed yet. */
  readonly answered: Map<BagId, IntentId>
}

/** Sends content to the service: answers the bag that holds it now, and rejects with what stood against that. */
export async function send(
  deps: SendDeps,
  put: PutIntent,
  what: Sent,
  attempt: Try,
): Promise<BagId> {
  const wasKnown = knownBags(deps, put)
  try {
    const bagId = await sendWithRoom(deps, put, what, attempt)
    deps.onStep?.('upload.answered')
    const isKnown = wasKnown(bagId) || isOfOther(deps, put, bagId)
    if (!isKnown) deps.answered.set(bagId, put.id)
    if (isKnown) await requireOurs(deps, put, bagId, attempt.signal)
    else if (put.replaces.length > 0) await requireThere(deps, put, bagId, attempt.signal)
    return bagId
  } catch (error) {
    if (isDriveError(error) && error.facts.answerLost === true) {
      attempt.onAnswerLost()
      await deps.mayHave(put)
    }
    throw error
  }
}

/**
 * Of bags that were known before the upload. A service that stores equal content once answers the id of
 * such a bag, and so does one that is wrong.
 */
function knownBags(deps: SendDeps, put: PutIntent): (bagId: BagId) => boolean {
  const { listing, facts } = deps
  const index = listing.current()?.index
  const others = new Set([...bagsOfOthers(deps, put), ...put.replaces])
  return (bagId) =>
    others.has(bagId) || facts.get(bagId) !== undefined || (index?.recordsOf(bagId).length ?? 0) > 0
}

/** True for an id that another upload was answered meanwhile. */
function isOfOther(deps: SendDeps, put: PutIntent, bagId: BagId): boolean {
  const first = deps.answered.get(bagId)
  return (first !== undefined && first !== put.id) || bagsOfOthers(deps, put).includes(bagId)
}

/** Throws for a bag that holds other content: nothing is stored in it, and nothing is deleted for it. */
async function requireOurs(
  deps: SendDeps,
  put: PutIntent,
  bagId: BagId,
  signal: AbortSignal,
): Promise<void> {
  let cause: unknown
  try {
    if (await isOurs(deps, put, bagId, signal)) return
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
 * Throws for an id that no bag has, or a bag of another length: nothing is deleted for it. A service that does
 * not say is believed.
 */
async function requireThere(
  { service, log }: SendDeps,
  { name, content }: PutIntent,
  bagId: BagId,
  signal: AbortSignal,
): Promise<void> {
  const { isThere, length } = await askForBag(service, bagId, { signal }).catch(
    (error: unknown): BagThere => {
      log.debug({ bagId, error: String(error) }, 'Whether a new bag is there is not known.')
      return { isThere: true }
    },
  )
  const isOther = length !== undefined && content.length !== undefined && length !== content.length
  if (isThere && !isOther) return
  throw new DriveError(
    'bad-answer',
    `The service answered the upload of "${name}" with the id of ${isThere ? 'another' : 'no'} bag.`,
    { answerLost: true },
  )
}

/** A refusal counts once the service had told before it that there is room. */
async function sendWithRoom(
  deps: SendDeps,
  put: PutIntent,
  what: Sent,
  attempt: Try,
): Promise<BagId> {
  const { length, growth } = what
  const explain = (error: unknown): Promise<Refused> =>
    explainRefusal(deps, error, { length, signal: attempt.signal })
  try {
    return await sendOnce(deps, put, what, attempt)
  } catch (error) {
    const refused = await explain(error)
    if (!refused.hasRoom) throw refused.error
    // The bytes of a zip that grows are let go once: the whole of it is sent as any other content.
    if (growth !== undefined) throw new DriveError('busy', 'It has to be sent once more.')
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
  { path, length, growth, pieces }: Sent,
  { signal, onProgress }: Try,
): Promise<BagId> {
  onStep?.('upload.begin')
  const upload = put.isFolder === true ? service.uploadFolder : service.uploadFile
  return upload.call(
    service,
    {
      ...{ path, length },
      ...(growth === undefined ? {} : { growth }),
      ...(pieces === undefined ? {} : { pieces }),
      name: put.name,
      description: put.description,
    },
    {
      signal,
      onProgress: (sentBytes) => {
        onProgress(sentBytes, length)
      },
    },
  )
}
