import { isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { CallOptions, StorageService } from './storage-service.ts'

/** What one request for the first byte of a bag tells. */
export interface BagThere {
  readonly isThere: boolean
  /** Bytes of its content, where the answer says so. */
  readonly length?: number
}

/** Whether the service has a bag; asks for its first byte at most. Rejects when it does not say. */
export async function askForBag(
  service: Pick<StorageService, 'download'>,
  bagId: BagId,
  options: CallOptions = {},
): Promise<BagThere> {
  try {
    const { body, totalLength } = await service.download(bagId, {
      ...options,
      range: { start: 0, end: 1 },
    })
    body.destroy()
    return { isThere: true, ...(totalLength === undefined ? {} : { length: totalLength }) }
  } catch (error) {
    if (isDriveError(error, 'gone')) return { isThere: false }
    throw error
  }
}
