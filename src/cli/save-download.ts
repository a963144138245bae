import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { Belief } from '../content/belief.ts'
import { Silence } from '../content/silence.ts'
import { systemClock } from '../domain/clock.ts'
import { canPass, fromFileSystem } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { AccountAccess } from './account.ts'
import { beginDownload, checkEnd, contentOf, type DownloadRules } from './begin-download.ts'
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
 * again where the service knows no ranges. `size` is what the listing says. Rejects `corrupt` when the
 * length is not what the head said, `bad-answer` for what is no content, `timed-out` for what comes too slowly.
 */
export async function saveDownload(
  access: AccountAccess,
  { bagId, size }: { readonly bagId: BagId; readonly size: number | undefined },
  path: string,
  onProgress: ProgressListener,
): Promise<SavedDownload> {
  const file = await open(path, 'wx').catch((error: unknown) => {
    throw fromFileSystem(error, `Writing ${path}`)
  })
  try {
    const silence = new Silence(systemClock, access.silenceMs)
    return await fill(access, { bagId, belief: beliefIn(size), silence }, { file, onProgress })
  } finally {
    await file.close()
  }
}

/** The listing is all that a command knows of a bag. */
export function beliefIn(size: number | undefined): Belief {
  return new Belief(() => ({
    uploadedLength: undefined,
    possibleLengths: size === undefined ? [] : [size],
  }))
}

async function fill(
  access: AccountAccess,
  { bagId, belief, silence }: DownloadRules & { readonly bagId: BagId },
  { file, onProgress }: { readonly file: FileHandle; readonly onProgress: ProgressListener },
): Promise<SavedDownload> {
  const { signal, log } = access
  let length = 0
  let barrenTries = 0
  while (true) {
    const before = length
    try {
      // The last byte of a body that may have ended too early is asked for again.
      const start = belief.doubted === undefined ? length : Math.max(0, length - 1)
      const download = await beginDownload(access, bagId, { belief, silence }, start)
      // A service without ranges sends everything again.
      length = download.start
      for await (const chunk of contentOf(download, silence)) {
        await writeFully(file, chunk, length)
        length += chunk.length
        onProgress(length)
      }
      checkEnd(download, length, belief)
      await file.truncate(length)
      const { contentType, fileName } = download
      return { length, contentType, fileName }
    } catch (error) {
      barrenTries = length > before ? 0 : barrenTries + 1
      silence.failed()
      if (length === 0 || !canPass(error) || barrenTries >= MAX_BARREN_TRIES) throw error
      if (silence.leftMs <= PAUSE_MS) throw silence.error(error)
      log.warn({ bagId, length, error }, 'The download was cut and goes on.')
      await systemClock.sleep(PAUSE_MS, signal)
      silence.failed(PAUSE_MS)
    }
  }
}
