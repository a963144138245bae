import { DriveError, isDriveError } from '../domain/errors.ts'
import type { Output } from './output.ts'

/**
 * Does a task for each of several items: one for which it fails keeps no other from it. Rejects in the end when one did; of a
 * single item with its own error, and of all when it was interrupted. `not` is what was not done to it: "saved".
 */
export async function oneByOne<Item extends { readonly name: string }>(
  output: Output,
  items: readonly Item[],
  { not, task }: { readonly not: string; readonly task: (item: Item) => Promise<void> },
): Promise<void> {
  const failures: DriveError[] = []
  for (const item of items) {
    try {
      await task(item)
    } catch (error) {
      if (!isDriveError(error) || items.length === 1 || error.code === 'interrupted') throw error
      failures.push(error)
      output.note(`bagfs: not ${not}: ${item.name}: ${error.message}`)
    }
  }
  const [first] = failures
  if (first === undefined) return
  const { hint } = first.facts
  throw new DriveError(first.code, `${failures.length} of ${items.length} were not ${not}.`, {
    ...(hint === undefined ? {} : { hint }),
  })
}
