import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { systemClock } from '../domain/clock.ts'
import { canPass, DriveError, fromFileSystem } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Download } from '../service/drive-service.ts'
import type { AccountAccess } from './account.ts'
import type { ProgressListener } from './progress.ts'
import { writeFully } from './write-fully.ts'

/** A download on the local disk. */
export interface SavedDownload {
  readonly length: number
  readonly contentType: string | undefined
  readonly fileName: string | undefined
}

/** Cuts in a row without a single new byte, after which a download is given up. */
const MAX_BARREN_TRIES = 3
const PAUSE_MS = 500

/**
 * Downloads a bag to `path`, which must not exist. A cut download goes on where it was cut, or starts
 * again where the service knows no ranges. Rejects `corrupt` when the length is not what the head said.
 */
export async function saveDownload(
  access: AccountAccess,
  bagId: BagId,
  path: string,
  onProgress: ProgressListener,
): Promise<SavedDownload> {
  const file = await open(path, 'wx').catch((error: unknown) => {
    throw fromFileSystem(error, `Writing ${path}`)
  })
  try {
    return await fill(access, bagId, file, onProgress)
  } finally {
    await file.close()
  }
}

async function fill(
  { service, signal, log }: AccountAccess,
  bagId: BagId,
  file: FileHandle,
  onProgress: ProgressListener,
): Promise<SavedDownload> {
  let length = 0
  let barrenTries = 0
  while (true) {
    const before = length
    try {
      const download = await service.download(bagId, { signal, range: { start: length } })
      // A service without ranges sends everything again.
      length = download.start
      for await (const chunk of download.body as AsyncIterable<Buffer>) {
        await writeFully(file, chunk, length)
        length += chunk.length
        onProgress(length)
      }
      checkLength(download, length)
      await file.truncate(length)
      const { contentType, fileName } = download
      return { length, contentType, fileName }
    } catch (error) {
      barrenTries = length > before ? 0 : barrenTries + 1
      if (length === 0 || !canPass(error) || barrenTries >= MAX_BARREN_TRIES) throw error
      log.warn({ bagId, length, error }, 'The download was cut and goes on.')
      await systemClock.sleep(PAUSE_MS, signal)
    }
  }
}

/** Rejects `corrupt` when a download's length is not what its head said. */
export function checkLength({ totalLength }: Download, length: number): void {
  if (totalLength === undefined || totalLength === length) return
  throw new DriveError('corrupt', `The service sent ${length} bytes and had said ${totalLength}.`)
}
