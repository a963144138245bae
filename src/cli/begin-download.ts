import type { Belief } from '../content/belief.ts'
import type { Silence } from '../content/silence.ts'
import { DriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Download } from '../service/storage-service.ts'
import type { AccountAccess } from './account.ts'

/** What a download is held to: what counts as content, and how slowly it may come. */
export interface DownloadRules {
  readonly belief: Belief
  readonly silence: Silence
}

/**
 * Asks for a bag's content from `start` on: the answer's length is believed, or not told. Rejects
 * `bad-answer` for what is no content, `unavailable` when no two answers are of one length.
 */
export async function beginDownload(
  { service, signal }: AccountAccess,
  bagId: BagId,
  { belief, silence }: DownloadRules,
  start = 0,
): Promise<Download> {
  const ask = async (): Promise<Download> => {
    const onBegin = (): void => {
      silence.requestSent()
    }
    const download = await service.download(bagId, {
      ...{ signal, range: { start }, onBegin },
      limits: silence.limits,
      isLength: (length) => belief.isKnown(length),
    })
    silence.answered()
    return download
  }
  const first = await ask()
  if (isBelieved(first, belief)) return first
  const second = await ask()
  if (isBelieved(second, belief)) return second
  throw belief.doubtOf(second.totalLength ?? 0)
}

/** The body of a download; rejects `timed-out` when it comes too slowly. What takes it may be as slow as it is. */
export async function* contentOf({ body }: Download, silence: Silence): AsyncGenerator<Buffer> {
  for await (const chunk of body as AsyncIterable<Buffer>) {
    silence.came(chunk.length)
    silence.check()
    yield chunk
    silence.answered()
  }
}

/** A body that is not believed is let go of. */
function isBelieved(download: Download, belief: Belief): boolean {
  let isBelieved = false
  try {
    const { totalLength } = download
    isBelieved = !belief.doubts(download) || belief.cameWhole(totalLength ?? 0, download)
    return isBelieved
  } finally {
    if (!isBelieved) download.body.destroy()
  }
}

/** Rejects when a body that ended at `length` is known not to be all of the content. */
export function checkEnd(download: Download, length: number, belief: Belief): void {
  const { totalLength } = download
  if (totalLength === undefined && !belief.cameWhole(length, download)) throw belief.doubtOf(length)
  if (totalLength === undefined || totalLength === length) return
  throw new DriveError('corrupt', `The service sent ${length} bytes and had said ${totalLength}.`)
}
