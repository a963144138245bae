import { link } from 'node:fs/promises'
import { fromFileSystem, isAbsent } from '../../domain/errors.ts'
import type { PutContent, PutIntent } from '../../intents/intent.ts'
import type { Outbox } from '../../outbox/outbox.ts'

/**
 * Links the staged content of a put to `path`, the place of another draft, or names the bag where it is. Rejects with
 * the DriveError of what stands against that on the local disk.
 */
export async function shareContent(
  outbox: Pick<Outbox, 'contentPath' | 'put'>,
  intent: PutIntent,
  path: string,
): Promise<PutContent> {
  try {
    await link(outbox.contentPath(intent.id), path)
    return intent.content
  } catch (error) {
    const latest = outbox.put(intent.id)
    if (isAbsent(error) && latest !== undefined) {
      if (latest.bagId !== undefined) {
        return { from: 'bag', bagId: latest.bagId, length: intent.content.length ?? 0 }
      }
      if (latest.content.from === 'bag') return latest.content
    }
    throw fromFileSystem(error, 'The file cannot be renamed now')
  }
}
