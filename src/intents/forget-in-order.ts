import type { IntentId } from '../domain/ids.ts'
import type { Intent } from './intent.ts'

/**
 * Forgets finished intents, given oldest first. What is left shows the same tree at each moment,
 * also after a kill. So an intent that was given a bag goes before the intent that hides it.
 * Intents of other bags do not wait. `forget` answers whether the intent is gone; while one stays,
 * so do those that it needs.
 */
export async function forgetInOrder(
  intents: readonly Intent[],
  forget: (intent: Intent) => Promise<boolean>,
): Promise<void> {
  const turns = new Map<string, Promise<boolean>>()
  for (const intent of intents) {
    const marks = marksOf(intent)
    const earlier = new Set(marks.flatMap((mark) => turns.get(mark) ?? []))
    const turn = forgetAfter([...earlier], () => forget(intent))
    for (const mark of marks) turns.set(mark, turn)
  }
  await Promise.all(turns.values())
}

/** What ties an intent to others: the bags that it names, the intents that it supersedes, and itself. */
function marksOf(intent: Intent): readonly string[] {
  const given = intent.kind === 'put' && intent.bagId !== undefined ? [intent.bagId] : []
  const ids: readonly IntentId[] = [intent.id, ...intent.supersedes]
  return [
    ...ids.map((id) => `intent ${id}`),
    ...[...given, ...intent.replaces].map((bag) => `bag ${bag}`),
  ]
}

async function forgetAfter(
  earlier: readonly Promise<boolean>[],
  forget: () => Promise<boolean>,
): Promise<boolean> {
  if (earlier.length === 0) return forget()
  const areGone = await Promise.all(earlier)
  return areGone.every(Boolean) && forget()
}
