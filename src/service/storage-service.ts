import type { Readable } from 'node:stream'
import type { BagId } from '../domain/ids.ts'
import type { Account, BagRecord } from '../domain/record.ts'

/** What every call takes. */
export interface CallOptions {
  readonly signal?: AbortSignal
  /** Called when the call has waited its turn and is going to be sent; what it throws ends the call. */
  readonly onBegin?: () => void
  /** True for a call that is made also while others fail at once, see `withBreaker`. */
  readonly isInPause?: boolean
}

/** Content on the local disk that is to be uploaded. `length` is the file's length in bytes. */
export interface UploadSource {
  readonly path: string
  readonly length: number
  /** Name as the service gets it, raw UTF-8. */
  readonly name: string
  readonly description: string
  /** True for a file that others may write to meanwhile: it is refused then, also where its length stays the same. */
  readonly mayChange?: boolean
  /** The content, where it is in no file; made anew for each time it is sent. */
  readonly pieces?: () => AsyncGenerator<Uint8Array>
}

export interface UploadOptions extends CallOptions {
  /** Called with the bytes of content sent so far; starts again at 0 when the upload is repeated. */
  readonly onProgress?: (sentBytes: number) => void
}

export interface DownloadOptions extends CallOptions {
  /** First byte wanted; a `Range` request when not 0. `end` is exclusive. */
  readonly range?: { readonly start: number; readonly end?: number }
  /** Instead of the limits of the settings. */
  readonly limits?: DownloadLimits
  /**
   * True for a length that the content is known to have, in bytes. A body that is so long as it comes is the content,
   * whatever its `Content-Encoding` says: some services label with it what is stored compressed.
   */
  readonly isLength?: (length: number) => boolean
}

export interface DownloadLimits {
  /** How long the head may take, repeats included. */
  readonly answerMs: number
  /** How long the body may stand still. */
  readonly stallMs: number
}

/** The head of a download, and its body still to come. */
export interface Download {
  /** Offset of the body's first byte: 0 unless the service answered 206. */
  readonly start: number
  /** Length of the whole content in bytes, when the head says so. */
  readonly totalLength: number | undefined
  /** True when the service is known to answer ranges (206, or `Accept-Ranges: bytes`). */
  readonly acceptsRanges: boolean
  /** True when the body was compressed on its way: what comes may be as long as nothing tells. */
  readonly isDecoded: boolean
  /** False when the body ends with the connection: then its end may be that of a cut. */
  readonly isEndTold: boolean
  readonly contentType: string | undefined
  /** File name of `Content-Disposition`, decoded, without any path. */
  readonly fileName: string | undefined
  readonly etag: string | undefined
  /** Errors of the body are DriveErrors: `unavailable` (cut), `timed-out` (stalled). */
  readonly body: Readable
}

export interface DeleteOptions extends CallOptions {
  /** Called when a request went without an answer, also where it is repeated: it may still arrive at the service. */
  readonly onAnswerLost?: () => void
  /** Asked before each repeat: false when the bag must not be deleted any more. Then the call rejects as the try before. */
  readonly mayRepeat?: () => Promise<boolean>
}

/**
 * The seven endpoints of docs/SERVICE.md. Every rejection is a DriveError; what changes something may have been carried
 * out where it rejects with `facts.answerLost`. An upload is repeated only while it is certain that it was not.
 */
export interface StorageService {
  uploadFile(source: UploadSource, options?: UploadOptions): Promise<BagId>
  uploadFolder(source: UploadSource, options?: UploadOptions): Promise<BagId>
  addById(bagId: BagId, options?: CallOptions): Promise<void>
  /** Resolves when the head is here. Rejects `gone` when the service has no such bag. */
  download(bagId: BagId, options?: DownloadOptions): Promise<Download>
  /** Resolves also when the bag was gone already. */
  deleteBag(bagId: BagId, options?: DeleteOptions): Promise<void>
  listFiles(options?: CallOptions): Promise<readonly BagRecord[]>
  getAccount(options?: CallOptions): Promise<Account>
  close(): Promise<void>
}
