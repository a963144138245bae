import { isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { CallOptions, DriveService } from './drive-service.ts'

/** True when the service has a bag; asks for its first byte at most. Rejects when it does not say. */
export async function hasBag(
  service: Pick<DriveService, 'download'>,
  bagId: BagId,
  options: CallOptions = {},
): Promise<boolean> {
  try {
    const { body } = await service.download(bagId, { ...options, range: { start: 0, end: 1 } })
    body.destroy()
    return true
  } catch (error) {
    if (isDriveError(error, 'gone')) return false
    throw error
  }
}
