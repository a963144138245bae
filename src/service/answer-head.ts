/** Headers of an answer with names in lower case; of repeated ones, the first. */
export type AnswerHeaders = Readonly<Record<string, string | undefined>>

export function toAnswerHeaders(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): AnswerHeaders {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name.toLowerCase(),
      Array.isArray(value) ? value[0] : value,
    ]),
  )
}

/** `Content-Range: bytes start-last/total`, with an exclusive end. */
export interface ContentRange {
  readonly start: number
  readonly end: number
  readonly total: number | undefined
}

const CONTENT_RANGE = /^\s*bytes\s+(\d+)-(\d+)\/(\d+|\*)\s*$/i

export function parseContentRange(value: string | undefined): ContentRange | undefined {
  const match = CONTENT_RANGE.exec(value ?? '')
  if (match === null) return undefined
  const [start, last, total] = match.slice(1).map(Number) as [number, number, number]
  const range = { start, end: last + 1, total: Number.isNaN(total) ? undefined : total }
  const isSound = range.start < range.end && range.end <= (range.total ?? Infinity)
  return isSound && Number.isSafeInteger(range.end) ? range : undefined
}

/** `Content-Length` in bytes, when it is there and makes sense. */
export function parseContentLength(value: string | undefined): number | undefined {
  const length = value !== undefined && /^\s*\d+\s*$/.test(value) ? Number(value) : undefined
  return Number.isSafeInteger(length) ? length : undefined
}

/** How many bytes the body must have, going by the head; undefined when it does not say. */
export function bodyLengthOf(status: number, headers: AnswerHeaders): number | undefined {
  const length = parseContentLength(headers['content-length'])
  if (length !== undefined || status !== 206 || isEncoded(headers)) return length
  const range = parseContentRange(headers['content-range'])
  return range === undefined ? undefined : range.end - range.start
}

/** True when the body is compressed on its way (`Content-Encoding`). */
export function isEncoded(headers: AnswerHeaders): boolean {
  return encodingOf(headers) !== 'identity'
}

export function encodingOf(headers: AnswerHeaders): string {
  const encoding = headers['content-encoding']?.trim().toLowerCase()
  return encoding === undefined || encoding === '' ? 'identity' : encoding
}
