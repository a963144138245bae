import { open } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { Belief } from '../content/belief.ts'
import { Silence } from '../content/silence.ts'
import { systemClock } from '../domain/clock.ts'
import { canPass, DriveError, fromFileSystem, isDriveError } from '../domain/errors.ts'
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
/** A download that goes on where it was cut brings so much of what came before once more, to be compared. */
const OVERLAP_BYTES = 16 * 1024

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
  const file = await open(path, 'wx+').catch((error: unknown) => {
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
  rules: DownloadRules & { readonly bagId: BagId },
  { file, onProgress }: { readonly file: FileHandle; readonly onProgress: ProgressListener },
): Promise<SavedDownload> {
  const { signal, log } = access
  const { silence } = rules
  const arrived = new BytesOnDisk(file)
  let barrenTries = 0
  while (true) {
    const before = arrived.length
    try {
      return await tryOnce(access, rules, { arrived, onProgress })
    } catch (error) {
      const { length } = arrived
      barrenTries = length > before ? 0 : barrenTries + 1
      silence.failed()
      const mayGoOn = arrived.isTakenBack ? mayComeSound(error) : length > 0 && canPass(error)
      if (!mayGoOn || barrenTries >= MAX_BARREN_TRIES) throw error
      if (silence.leftMs <= PAUSE_MS) throw silence.error(error)
      const words = arrived.isTakenBack ? 'was no content and begins anew' : 'was cut and goes on'
      log.warn({ bagId: rules.bagId, length, error }, `The download ${words}.`)
      await systemClock.sleep(PAUSE_MS, signal)
      silence.failed(PAUSE_MS)
    }
  }
}

/** One answer, from where the last one was cut. Its end is checked, and what it has in common with what came before. */
async function tryOnce(
  access: AccountAccess,
  { bagId, belief, silence }: DownloadRules & { readonly bagId: BagId },
  { arrived, onProgress }: { readonly arrived: BytesOnDisk; readonly onProgress: ProgressListener },
): Promise<SavedDownload> {
  const download = await beginDownload(
    access,
    bagId,
    { belief, silence },
    belief.isToComeTwice ? 0 : Math.max(0, arrived.length - OVERLAP_BYTES),
  )
  // A service without ranges sends everything again.
  let position = download.start
  for await (const chunk of contentOf(download, silence)) {
    await arrived.take(chunk, position)
    position += chunk.length
    onProgress(position)
  }
  try {
    checkEnd(download, position, belief)
  } catch (error) {
    if (isDriveError(error, 'bad-answer')) arrived.takeBack()
    throw error
  }
  await arrived.endAt(position)
  const { contentType, fileName } = download
  return { length: position, contentType, fileName }
}

/** The next answer may be sound. */
function mayComeSound(error: unknown): boolean {
  return canPass(error) || isDriveError(error, 'corrupt')
}

/** What has come of a download, in its file. */
class BytesOnDisk {
  readonly #file: FileHandle
  #length = 0
  #isTakenBack = false

  constructor(file: FileHandle) {
    this.#file = file
  }

  /** So many bytes are here, from the first on. */
  get length(): number {
    return this.#length
  }

  /** What had come was no content, and nothing has come since. */
  get isTakenBack(): boolean {
    return this.#isTakenBack
  }

  /** Bytes that are here already must come the same again: else none of them counts, and it throws `corrupt`. */
  async take(bytes: Uint8Array, position: number): Promise<void> {
    const again = Math.max(0, Math.min(bytes.length, this.#length - position))
    if (!(await this.#holds(bytes.subarray(0, again), position))) {
      this.takeBack()
      throw new DriveError('corrupt', 'The content came twice, and not the same.')
    }
    await writeFully(this.#file, bytes.subarray(again), position + again)
    this.#length = Math.max(this.#length, position + bytes.length)
    if (this.#length > 0) this.#isTakenBack = false
  }

  takeBack(): void {
    this.#length = 0
    this.#isTakenBack = true
  }

  async endAt(length: number): Promise<void> {
    await this.#file.truncate(length)
  }

  async #holds(bytes: Uint8Array, position: number): Promise<boolean> {
    if (bytes.length === 0) return true
    const here = Buffer.allocUnsafe(bytes.length)
    const { bytesRead } = await this.#file
      .read(here, 0, here.length, position)
      .catch((error: unknown) => {
        throw fromFileSystem(error, 'Reading from the local disk')
      })
    return here.subarray(0, bytesRead).equals(bytes)
  }
}
