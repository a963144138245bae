import { DriveError } from '../domain/errors.ts'
import type { IntentId } from '../domain/ids.ts'
import type { Intent } from '../intents/intent.ts'
import { isStored, withSuperseded } from '../intents/rules.ts'
import { Jobs } from './jobs.ts'
import type { Outbox } from './outbox.ts'

/**
 * Forgets intents because a person says so, and with each the puts that it took the place of: they
 * would come back without it. One that the service has stays, as what was there before. Answers all that are
 * forgotten. Rejects `busy`, with nothing forgotten, when one of them is being sent. So it does when content would be at no
 * place: it moved there, and another change takes it away where it was.
 */
export async function discardIntents(
  outbox: Outbox,
  ids: readonly IntentId[],
  jobs: Pick<Jobs, 'has' | 'withhold'> = new Jobs(),
): Promise<readonly IntentId[]> {
  const chosen = ids.flatMap((id) => withSuperseded(outbox, id))
  // The deletes go first: a kill in between must not leave one that waits for nothing any more.
  const all = [...deletesAfter(outbox, chosen), ...chosen]
  refuseHomeless(outbox, all)
  const sending = all.find(({ id }) => jobs.has(id))
  if (sending !== undefined) {
    throw new DriveError('busy', `${sending.name} is being sent right now.`, {
      hint: 'Try again in a moment.',
    })
  }
  const forgotten = [...new Set(all.map(({ id }) => id))]
  await jobs.withhold(forgotten, async () => {
    for (const id of forgotten) await outbox.remove(id)
  })
  return forgotten
}

/** What moved from a folder into one of these puts is taken out of that folder by its other changes. */
function refuseHomeless(outbox: Outbox, forgotten: readonly Intent[]): void {
  const gone = new Map(forgotten.map((intent) => [intent.id, intent]))
  for (const { id, name, after = [] } of outbox.intents()) {
    const moved = gone.has(id) ? undefined : after.find((each) => gone.has(each.id))
    if (moved === undefined || isStored(outbox, moved)) continue
    const to = gone.get(moved.id)?.name ?? ''
    throw new DriveError('busy', `What moved from ${name} to ${to} would be at no place.`, {
      hint: `Discard both (bagfs outbox discard ${name} ${to}), or move it back first.`,
    })
  }
}

/** Deletes of what moved into these puts: without them, the content would be at no place. */
function deletesAfter(outbox: Outbox, puts: readonly Intent[]): readonly Intent[] {
  const gone = new Set(puts.map(({ id }) => id))
  return outbox.intents().filter(({ id, kind, after = [] }) => {
    return kind === 'delete' && !gone.has(id) && after.some((moved) => gone.has(moved.id))
  })
}
