/** What a `Range` header asks of content of a known length. `end` is exclusive. */
export type AskedRange =
  | { readonly kind: 'whole' }
  | { readonly kind: 'part'; readonly start: number; readonly end: number }
  | { readonly kind: 'unsatisfiable' }

const WHOLE: AskedRange = { kind: 'whole' }
const UNSATISFIABLE: AskedRange = { kind: 'unsatisfiable' }
const SINGLE = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i

/**
 * Reads a `Range` header (RFC 9110 section 14). A header that is malformed, names another unit or
 * several ranges is ignored, as the RFC allows.
 */
export function answerRange(header: string | undefined, length: number): AskedRange {
  const [, first, last] = SINGLE.exec(header ?? '') ?? ['', '', '']
  if (!first) return last ? suffix(Number(last), length) : WHOLE
  const start = Number(first)
  const end = last ? Number(last) + 1 : length
  if (last && end <= start) return WHOLE
  return start < length ? { kind: 'part', start, end: Math.min(end, length) } : UNSATISFIABLE
}

function suffix(wanted: number, length: number): AskedRange {
  if (wanted === 0) return UNSATISFIABLE
  // A suffix of nothing is satisfiable, but no Content-Range can say so.
  if (length === 0) return WHOLE
  return { kind: 'part', start: Math.max(0, length - wanted), end: length }
}
