import { isDriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { startLocalService } from '../local-service/server.ts'
import { uidOf } from '../local-service/tokens.ts'
import { findLiveDrives } from './drive-places.ts'
import type { ServiceChoice } from './mount-job.ts'

/**
 * The embedded service of a data directory: started here, or that of the drive which has the directory. Rejects
 * `locked` when another process has it.
 */
export async function openLocalService(
  { dataDir, token }: Pick<Extract<ServiceChoice, { kind: 'local' }>, 'dataDir' | 'token'>,
  log: Logger,
): Promise<{ readonly url: string; readonly close: () => Promise<void> }> {
  try {
    const started = await startLocalService({ dataDir, tokens: [token] }, { log })
    return { url: started.url, close: () => started.close() }
  } catch (error) {
    if (!isDriveError(error, 'locked')) throw error
    const account = uidOf(token)
    const drive = (await findLiveDrives()).find(({ status }) => status.account === account)
    if (drive === undefined) throw error
    return { url: drive.status.service, close: () => Promise.resolve() }
  }
}
