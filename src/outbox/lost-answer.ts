import { listedAs } from '../domain/folder-names.ts'
import { isDriveError } from '../domain/errors.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import { deletedBags } from '../intents/rules.ts'
import type { BagTime, Intent, PutIntent } from '../intents/intent.ts'
import type { BagRecord } from '../domain/record.ts'
import { askForBag } from '../service/has-bag.ts'
import { latestUpload } from './latest-upload.ts'
import type { UploaderDeps, UploaderSettings } from './ports.ts'

const LONGEST_PAUSE_MS = 2_000
/** A program waits for the answer. */
const LONGEST_LOOK_MS = 10_000
/** Longer than nothing is sent after a single call without an answer. */
const NOT_ASKED_MS = 1_200

/**
 * Looks for the bag of an upload whose answer was lost.
 *
 * Asks the listing until one that was begun `listingLagMs` after the upload still lacks it. A
 * record of our name that was not there before is ours when its content is ours. Answers when it was
 * uploaded, too; undefined when the upload did not arrive.
 */
export async function findSent(
  deps: UploaderDeps,
  settings: Pick<UploaderSettings, 'listingLagMs'>,
  intent: PutIntent,
  signal: AbortSignal,
): Promise<BagTime | undefined> {
  // A clock that was set back must not make this wait for a time that is far away.
  const sentAtMs = Math.min(intent.sentAtMs ?? 0, deps.clock.now())
  const refused = new Set<BagId>(intent.namesakes ?? [])
  for (;;) {
    const listing = await deps.listing.refreshNow(signal)
    for (const bagId of bagsOfOthers(deps, intent)) refused.add(bagId)
    for (const record of candidates(listing.records, intent, refused)) {
      if (await isOurs(deps, intent, record.bagId, { signal })) {
        return { bagId: record.bagId, atMs: record.uploadedAtMs }
      }
      refused.add(record.bagId)
    }
    if (listing.startedAtMs >= sentAtMs + settings.listingLagMs) return undefined
    const pauseMs = Math.min(LONGEST_PAUSE_MS, settings.listingLagMs / 4)
    await deps.clock.sleep(pauseMs, signal)
  }
}

/**
 * The bag of a put that another change took the place of, when its answer was lost, and when it was uploaded.
 * Content that comes back may be given the id that it had before. Such a bag is the put's when it is listed although
 * it was deleted. So is one that `successor`, or what is stored, is to delete, and one that a change left as stored
 * anew. The listing may lag: then what is gone is deleted once more.
 */
export async function findGiven(
  deps: UploaderDeps,
  settings: UploaderSettings,
  put: PutIntent,
  signal: AbortSignal,
  successor: IntentId,
): Promise<BagTime | undefined> {
  const { outbox, listing, isShown } = deps
  const ofOthers = outbox.intents().filter((other) => other.id === successor || isOver(other))
  // What knows of them may be forgotten meanwhile.
  const before = [put, ...ofOthers].flatMap(({ replaces }) => replaces)
  const gone = deletedBags(outbox.intents())
  const found = await findSent(deps, settings, put, signal)
  if (found !== undefined) return found
  const index = listing.current()?.index
  for (const bagId of new Set([...before, ...gone])) {
    const records = index?.recordsOf(bagId) ?? []
    if (records.every(({ name }) => listedAs(name, put) === undefined) || isShown(bagId)) continue
    if (await isStillOurs(deps, put, bagId, signal)) return { bagId, atMs: latestUpload(records) }
  }
  return undefined
}

/** True for a change whose old bags may go: none of them is the only version that is stored. */
function isOver(intent: Intent): boolean {
  return intent.kind === 'delete' || intent.phase === 'confirmed'
}

/** As `isOurs`; false for a bag that is listed and gone. */
async function isStillOurs(
  deps: UploaderDeps,
  put: PutIntent,
  bagId: BagId,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    return await isOurs(deps, put, bagId, { signal })
  } catch (error) {
    if (isDriveError(error, 'gone')) return false
    throw error
  }
}

/**
 * Whether a bag went although its DELETE was not answered: the service has it no more, or lists it no more. False
 * also when the service does not say, in a bounded time.
 */
export async function hasGone(
  deps: Pick<UploaderDeps, 'service' | 'listing' | 'clock' | 'log'>,
  bagId: BagId,
  { wasListed }: { readonly wasListed: boolean },
  closing: AbortSignal,
): Promise<boolean> {
  const signal = AbortSignal.any([closing, AbortSignal.timeout(LONGEST_LOOK_MS)])
  try {
    if (!(await isThereNow(deps, bagId, signal))) return true
    // A bag that the account has no more may be there for others.
    const { index } = await deps.listing.refreshNow(signal)
    return wasListed && index.recordsOf(bagId).length === 0
  } catch (error) {
    deps.log.debug({ bagId, error: String(error) }, 'Whether a bag is gone is not known.')
    return false
  }
}

/** For a moment after a call without an answer none is sent: the question waits for that to be over. */
async function isThereNow(
  { service, clock }: Pick<UploaderDeps, 'service' | 'clock'>,
  bagId: BagId,
  signal: AbortSignal,
): Promise<boolean> {
  const ask = async (): Promise<boolean> => (await askForBag(service, bagId, { signal })).isThere
  try {
    return await ask()
  } catch (error) {
    if (!isDriveError(error) || error.facts.notAsked !== true) throw error
    await clock.sleep(NOT_ASKED_MS, signal)
    return ask()
  }
}

/** True for a bag that another of these intents was given, or that one of them takes the place of. */
export function isOfOther(intents: readonly Intent[], put: PutIntent, bagId: BagId): boolean {
  return intents.some(
    (other) =>
      other.replaces.includes(bagId) ||
      (other.kind === 'put' && other.bagId === bagId && other.id !== put.id),
  )
}

/** The same bags, all of them: a listing that lags may still have those that we delete. */
function bagsOfOthers({ outbox }: Pick<UploaderDeps, 'outbox'>, put: PutIntent): readonly BagId[] {
  return outbox.intents().flatMap((other) => {
    if (other.id === put.id) return other.replaces
    const own = other.kind === 'put' && other.bagId !== undefined ? [other.bagId] : []
    return [...own, ...other.replaces]
  })
}

/** Records of our name, those that look like ours first: a listed size may be wrong. */
function candidates(
  records: readonly BagRecord[],
  intent: PutIntent,
  refused: ReadonlySet<BagId>,
): readonly BagRecord[] {
  const ours = records.filter(
    ({ name, bagId }) => listedAs(name, intent) !== undefined && !refused.has(bagId),
  )
  const misses = ({ size, description }: BagRecord): number =>
    (size === intent.content.length ? 0 : 2) + (description === intent.description ? 0 : 1)
  return ours.sort((a, b) => misses(a) - misses(b))
}

/** True when a bag holds what is to be stored; `isVouched` when an upload was just answered with its id. */
export async function isOurs(
  deps: Pick<UploaderDeps, 'facts' | 'content'>,
  intent: PutIntent,
  bagId: BagId,
  options: { readonly signal: AbortSignal; readonly isVouched?: boolean },
): Promise<boolean> {
  if (intent.content.from !== 'staged') return false
  const known = deps.facts.get(bagId)?.sha256
  if (known !== undefined) return known === intent.content.sha256
  // Not by a copy: the disk may be full.
  return deps.content.holds(bagId, intent.content, options)
}
