import { createHash } from 'node:crypto'
import { DriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { StorageService } from '../service/storage-service.ts'
import type { Silence } from './silence.ts'

/**
 * Asks for the whole content of a bag once more and compares it with what came before: false when the two
 * differ. Nothing of it is kept. Rejects when it does not come, or too slowly.
 */
export async function comesAgain(
  deps: { readonly service: Pick<StorageService, 'download'>; readonly silence: Silence },
  bagId: BagId,
  before: { readonly length: number; readonly sha256: string },
  signal?: AbortSignal,
): Promise<boolean> {
  const { service, silence } = deps
  const { body, start, totalLength } = await service.download(bagId, {
    ...(signal && { signal }),
    limits: silence.limits,
    onBegin: () => {
      silence.requestSent()
    },
  })
  silence.answered()
  const hash = createHash('sha256')
  let length = 0
  try {
    if (start !== 0)
      throw new DriveError('bad-answer', 'The service answered a part of the content.')
    if ((totalLength ?? before.length) !== before.length) return false
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      length += chunk.length
      if (length > before.length) return false
      hash.update(chunk)
      silence.came(chunk.length)
      silence.check()
      silence.answered()
    }
  } finally {
    body.destroy()
  }
  return length === before.length && hash.digest('hex') === before.sha256
}
