import { DriveError } from '../domain/errors.ts'
import type { IntentId } from '../domain/ids.ts'
import { withSuperseded } from '../intents/rules.ts'
import type { Outbox } from './outbox.ts'

/**
 * Forgets intents because a person says so, and with each the puts that it took the place of: they
 * would come back without it. One that the service has stays, as what was there before. Rejects
 * `busy`, with nothing forgotten, when one of them is being sent.
 */
export async function discardIntents(
  outbox: Outbox,
  ids: readonly IntentId[],
  isRunning: (id: IntentId) => boolean,
): Promise<void> {
  const all = ids.flatMap((id) => withSuperseded(outbox, id))
  const sending = all.find(({ id }) => isRunning(id))
  if (sending !== undefined) {
    throw new DriveError('busy', `${sending.name} is being sent right now.`, {
      hint: 'Try again in a moment.',
    })
  }
  for (const { id } of all) await outbox.remove(id)
}
