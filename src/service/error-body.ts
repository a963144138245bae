import { z } from 'zod'

/** What a failed answer says for people and for decisions. */
export interface ErrorWords {
  /** The service's own words on one line, or empty. */
  readonly words: string
  /** Names of the request fields in `detail[].loc`. */
  readonly fields: readonly string[]
  /** True when the body is a web page, so that it may not be from the service at all. */
  readonly isPage: boolean
}

const problem = z.object({
  loc: z.array(z.union([z.string(), z.number()])).catch([]),
  msg: z.string().catch(''),
})
const errorBody = z.object({ detail: z.union([z.string(), z.array(problem), problem]) })

/** Where a field was sent, which is no field's name. */
const PLACES = new Set(['body', 'query', 'path', 'header', 'cookie', 'form'])
const LONGEST_WORDS = 300

/** Reads the body of an answer that is not 2xx: the shape of docs/SERVICE.md, a plain `detail`, text, HTML or nothing. */
export function readErrorBody(text: string): ErrorWords {
  const json = parseJson(text)
  if (json === undefined) return fromText(text)
  const parsed = errorBody.safeParse(json)
  if (!parsed.success) return { words: shorten(text), fields: [], isPage: false }
  const { detail } = parsed.data
  if (typeof detail === 'string') return { words: shorten(detail), fields: [], isPage: false }
  const problems = Array.isArray(detail) ? detail : [detail]
  const sentences = problems.map(({ loc, msg }) => [fieldOf(loc), msg].filter(isThere).join(': '))
  return {
    words: shorten(sentences.filter(isThere).join('; ')),
    fields: [...new Set(problems.map(({ loc }) => fieldOf(loc)).filter(isThere))],
    isPage: false,
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function fieldOf(loc: readonly (string | number)[]): string {
  const [first, ...rest] = loc
  return (typeof first === 'string' && PLACES.has(first) ? rest : loc).join('.')
}

function isThere(text: string): boolean {
  return text !== ''
}

function fromText(text: string): ErrorWords {
  const isPage = looksLikePage(text)
  return { words: shorten(isPage ? textOfPage(text) : text), fields: [], isPage }
}

/** True for HTML (and XML), going by its first character. */
export function looksLikePage(text: string): boolean {
  return /^\uFEFF?\s*</.test(text)
}

function textOfPage(html: string): string {
  const title = titleOf(html)
  return title === '' ? textAroundTags(html) : title
}

function titleOf(html: string): string {
  const tag = html.search(/<title[\s>]/i)
  const start = tag < 0 ? -1 : html.indexOf('>', tag)
  return start < 0
    ? ''
    : html
        .slice(start + 1)
        .split('<', 1)
        .join('')
        .trim()
}

/** Goes over the page once: what is never closed ends it. */
function textAroundTags(html: string): string {
  const parts: string[] = []
  for (let at = 0; at < html.length;) {
    const tag = html.indexOf('<', at)
    parts.push(html.slice(at, tag < 0 ? undefined : tag))
    const end = tag < 0 ? -1 : html.indexOf('>', beforeEndOf(html, tag))
    if (end < 0) break
    at = end + 1
  }
  return parts.join(' ')
}

/** The place of a tag, and of the closing one where what is between them is no text. */
function beforeEndOf(html: string, tag: number): number {
  const element = /^<(script|style)\b/i.exec(html.slice(tag, tag + '<script>'.length))?.[1]
  if (element === undefined) return tag
  const close = element.toLowerCase() === 'script' ? /<\/script/gi : /<\/style/gi
  close.lastIndex = tag
  return close.exec(html)?.index ?? html.length
}

function shorten(text: string): string {
  // Control characters go too: the words are shown on terminals, which obey them.
  const line = text.replace(/[\s\p{Cc}]+/gu, ' ').trim()
  return line.length <= LONGEST_WORDS ? line : `${line.slice(0, LONGEST_WORDS)}…`
}
