import { isDriveError } from '../../domain/errors.ts'
import type { IntentId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import { isForUser, isTaken } from '../../intents/rules.ts'
import { isOnlyRenamed, renameTakenBack, type BeforeRename } from '../../intents/renames.ts'
import { ofPut } from '../../intents/transitions.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import { isOfGateway } from '../../service/statuses.ts'
import type { Committer } from './commit.ts'
import type { Puts } from './puts.ts'

const GOES_ON = 'A change is not stored yet, and goes on.'

interface SecureDeps {
  readonly committer: Pick<Committer, 'secure'>
  readonly outbox: Outbox
  readonly puts: Pick<Puts, 'takeBack'>
  readonly uploader: Uploader
  readonly log: Logger
}

/** Waits for a change (mode through). New content is never taken back; see `secureOrTakeBack` for other changes. */
export async function secureChange(
  deps: SecureDeps,
  id: IntentId,
  options: { readonly hasNewContent: boolean },
): Promise<void> {
  if (options.hasNewContent) await deps.committer.secure(id)
  else await secureOrTakeBack(deps, id)
}

/**
 * Waits for a change that holds no new content (mode through). One that failed is taken back, and rejects with the
 * reason. Two go on like any change in mode back: what the service may have done without saying so, and what took over
 * from a change before it. An error would be told for what happens all the same.
 */
async function secureOrTakeBack(deps: SecureDeps, id: IntentId): Promise<void> {
  const { committer, outbox, puts } = deps
  const isAlone = outbox.get(id)?.supersedes.length === 0
  try {
    await committer.secure(id)
  } catch (error) {
    if (await goesOn(deps, id, { error, isAlone })) return
    if (isAlone && outbox.get(id)?.phase === 'waiting' && !isLostDelete(deps, id, error)) {
      await puts.takeBack(id)
    }
    throw error
  }
}

/**
 * Waits for a put that waited already and got another name (mode through). When the service does not take it, it has its
 * old name again, and this rejects with the reason. It goes on under the new one where the service may have it, and
 * where it took over from a change before it: an error would be told for what happens all the same.
 */
export async function secureRenamed(
  { committer, outbox, uploader, log }: Omit<SecureDeps, 'puts'>,
  id: IntentId,
  before: BeforeRename,
): Promise<void> {
  const renamed = outbox.put(id)
  try {
    await committer.secure(id)
  } catch (error) {
    if (renamed === undefined || outbox.put(id) === undefined) throw error
    if (uploader.mayHaveArrived(id) && (await uploader.hasArrived(id))) return
    const isInDoubt = uploader.mayHaveArrived(id) && !isOwnFailure(error)
    if (!isInDoubt && isOnlyRenamed(renamed, before)) {
      const change = ofPut((latest) => renameTakenBack(latest, before))
      await outbox.update(id, change, { durable: true })
      throw error
    }
    const { name } = renamed
    log.warn({ intent: id, name, error: String(error) }, GOES_ON)
  }
}

/** True for a put that is carried out, now or later. */
async function goesOn(
  { outbox, uploader, log }: SecureDeps,
  id: IntentId,
  { error, isAlone }: { readonly error: unknown; readonly isAlone: boolean },
): Promise<boolean> {
  const put = outbox.put(id)
  if (put === undefined || isForUser(put)) return false
  if (isTaken(put)) return true
  if (uploader.mayHaveArrived(id) && (await uploader.hasArrived(id))) return true
  if (isAlone && (!uploader.mayHaveArrived(id) || isOwnFailure(error))) return false
  const { name } = put
  log.warn({ intent: id, name, error: String(error) }, GOES_ON)
  return true
}

/** The service itself says that it failed; a gateway does not know what became of the request. */
function isOwnFailure(error: unknown): boolean {
  const status = isDriveError(error) ? (error.facts.status ?? 0) : 0
  return status >= 500 && !isOfGateway(status)
}

/** A delete that may have been done is made again, and does no harm then. */
function isLostDelete({ outbox }: SecureDeps, id: IntentId, error: unknown): boolean {
  const isDelete = outbox.get(id)?.kind === 'delete'
  return isDelete && isDriveError(error) && error.facts.answerLost === true
}
