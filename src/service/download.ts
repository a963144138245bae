import { decodedBody } from './answer-body.ts'
import {
  bodyLengthOf,
  isEncoded,
  parseContentLength,
  parseContentRange,
  type ContentRange,
} from './answer-head.ts'
import { fileNameOfDisposition } from './disposition.ts'
import type { Download } from './storage-service.ts'
import type { Answer } from './exchange.ts'

export interface WantedRange {
  readonly start: number
  /** Exclusive; to the end of the content when undefined. */
  readonly end: number | undefined
}

/** The value of a `Range` header, or undefined when the whole content is wanted. */
export function rangeHeader({ start, end }: WantedRange): string | undefined {
  if (start === 0 && end === undefined) return undefined
  return `bytes=${start}-${end === undefined ? '' : end - 1}`
}

/** Reads the head of a download. Throws `bad-answer` when the body is not what was asked for. */
export function toDownload(
  answer: Answer,
  wanted: WantedRange,
  isLength: (length: number) => boolean = () => false,
): Download {
  try {
    return readHead(answer, wanted, isLength)
  } catch (error) {
    answer.body.destroy()
    throw error
  }
}

function readHead(
  answer: Answer,
  wanted: WantedRange,
  isLength: (length: number) => boolean,
): Download {
  const { headers, status } = answer
  if (status !== 200 && status !== 206) {
    throw answer.error('bad-answer', `it answered with status ${status}.`, { status })
  }
  const isDecoded = isEncoded(headers) && !isStoredSo(answer, isLength)
  const range = status === 206 ? checkRange(answer, wanted, { isDecoded }) : undefined
  const acceptsRanges = /\bbytes\b/i.test(headers['accept-ranges'] ?? '')
  return {
    start: range?.start ?? 0,
    totalLength: isDecoded ? undefined : totalLength(answer, range),
    acceptsRanges: range !== undefined || (acceptsRanges && !isDecoded),
    isDecoded,
    isEndTold: tellsEnd(answer),
    contentType: headers['content-type'],
    fileName: fileNameOfDisposition(headers['content-disposition']),
    etag: headers['etag'],
    body: isDecoded ? decodedBody(answer) : answer.body,
  }
}

/** True for what is labelled as compressed, and is as long as the content is: it is stored so. */
function isStoredSo({ headers, status }: Answer, isLength: (length: number) => boolean): boolean {
  const length =
    status === 206
      ? parseContentRange(headers['content-range'])?.total
      : parseContentLength(headers['content-length'])
  return length !== undefined && isLength(length)
}

/** A body in chunks has an end of its own, and so has a compressed one. */
function tellsEnd({ headers, status }: Answer): boolean {
  if (bodyLengthOf(status, headers) !== undefined || isEncoded(headers)) return true
  return /\bchunked\b/i.test(headers['transfer-encoding'] ?? '')
}

function totalLength(answer: Answer, range: ContentRange | undefined): number | undefined {
  if (range !== undefined) return range.total
  return parseContentLength(answer.headers['content-length'])
}

/** A range other than the one asked for would put bytes in the wrong place or leave some out. */
function checkRange(
  answer: Answer,
  wanted: WantedRange,
  { isDecoded }: { readonly isDecoded: boolean },
): ContentRange {
  const range = parseContentRange(answer.headers['content-range'])
  const end = Math.min(wanted.end ?? Infinity, range?.total ?? Infinity)
  const isAsWanted =
    range?.start === wanted.start &&
    (range.end === end || end === Infinity) &&
    isConsistent(answer, range)
  if (range === undefined || !isAsWanted || isDecoded) {
    throw answer.error('bad-answer', 'it answered with another range than the one asked for.', {
      status: 206,
    })
  }
  return range
}

function isConsistent(answer: Answer, range: ContentRange): boolean {
  const length = parseContentLength(answer.headers['content-length'])
  return length === undefined || length === range.end - range.start
}
