import { createHash } from 'node:crypto'
import { DriveError } from './errors.ts'

/**
 * Names of the service may be any string; names of a drive are 1 to 255 bytes of UTF-8 without `/`
 * and NUL. The coding between them leaves ordinary names alone. In a coded name every `‛` (U+201B)
 * begins one of these codes:
 *
 * - `‛‛`: the quote itself
 * - `‛2F`: a character up to U+00FF, two upper-case hex digits
 * - `‛uD800`: a surrogate without its other half, or U+FFFD, which a bridge takes for bytes that are not
 *   UTF-8; four upper-case hex digits
 * - `‛empty`: the empty name
 * - `‛~` and 16 hex digits: a name too long for the kernel was cut here; the digits are a hash of it
 */
const QUOTE = '\u201B'
const NAME_MAX_BYTES = 255
const EMPTY = `${QUOTE}empty`

/** `/`, control characters (C0, DEL, C1), the quote, surrogates that stand alone, and U+FFFD. */
const TO_CODE = /[\u0000-\u001F/\u007F-\u009F\u201B\uD800-\uDFFF\uFFFD]/u
const TO_CODE_EACH = new RegExp(TO_CODE.source, 'gu')

/** One code, or one character that stands for itself. */
const TOKEN = /\u201B(?:\u201B|[0-9A-F]{2}|u(?:D[89A-F][0-9A-F]{2}|FFFD)|~[0-9a-f]{16})|[^]/gu

/** What needs no code, in the shortest test there is: printable ASCII that cannot be reserved or too long. */
const ORDINARY = /^[ --0-~][ -.0-~]{0,254}$/

/** Names that mean something else in a drive, or that a kernel bridge makes for open files. */
const RESERVED = /^(?:\.{1,2}|\.bagfs|\.bags|\.fuse_hidden.*)$/su

/** Bytes that a name takes in UTF-8. */
function byteLength(text: string): number {
  return Buffer.byteLength(text, 'utf8')
}

/**
 * The name under which a drive shows a service name. Injective, but for collisions of a 64-bit hash
 * among names that are too long to be coded in 255 bytes.
 */
export function encodeName(serviceName: string): string {
  if (ORDINARY.test(serviceName)) return serviceName
  const coded = codeWhole(serviceName)
  // A UTF-16 unit takes three bytes at most.
  if (coded.length * 3 <= NAME_MAX_BYTES || byteLength(coded) <= NAME_MAX_BYTES) return coded
  const hash = createHash('sha256').update(serviceName, 'utf16le').digest('hex').slice(0, 16)
  return insertBeforeExtension(coded, `${QUOTE}~${hash}`)
}

function codeWhole(name: string): string {
  if (name === '') return EMPTY
  const coded = TO_CODE.test(name) ? name.replace(TO_CODE_EACH, codeCharacter) : name
  return RESERVED.test(coded) ? hexCode('.') + coded.slice(1) : coded
}

function codeCharacter(character: string): string {
  return character === QUOTE ? QUOTE + QUOTE : hexCode(character)
}

function hexCode(character: string): string {
  const unit = character.charCodeAt(0)
  const digits = unit.toString(16).toUpperCase()
  return unit <= 0xff ? QUOTE + digits.padStart(2, '0') : `${QUOTE}u${digits}`
}

/**
 * Refuses what cannot be a name in a drive: `bad-name` for an empty one, `.`, `..`, a slash or NUL,
 * `name-too-long` for more than 255 bytes.
 */
export function checkTypedName(name: string): void {
  if (name === '' || name === '.' || name === '..' || /[/\0]/.test(name)) {
    throw new DriveError('bad-name', `${JSON.stringify(name)} cannot be a name.`)
  }
  if (byteLength(name) > NAME_MAX_BYTES) {
    throw new DriveError('name-too-long', 'The name takes more than 255 bytes.', {
      hint: 'Give it a shorter name.',
    })
  }
}

/** What a decoder of UTF-8 puts in the place of bytes that are none. */
const REPLACEMENT = '\uFFFD'

/**
 * Refuses (`bad-encoding`) text from the kernel whose bytes are not UTF-8: different bytes would all come
 * as the same text, and mean one file.
 */
export function checkEncoding(text: string): void {
  if (!text.includes(REPLACEMENT)) return
  throw new DriveError('bad-encoding', 'The name is not UTF-8.', {
    hint: 'Give it a name in UTF-8 (convmv does that for many files).',
  })
}

/** A name in two parts; `extension` begins with its dot, or is empty. */
export interface NameParts {
  readonly stem: string
  readonly extension: string
}

/** Longest extension in UTF-8 bytes; what follows the last dot is text when it is longer. */
const EXTENSION_MAX_BYTES = 24

/**
 * Splits a shown name before its extension: the last dot and what follows, with a `.tar` before it
 * (`a.tar.gz`). Names that begin with their only dot have none, nor does text with a space in it.
 */
export function splitName(shown: string): NameParts {
  const dot = shown.lastIndexOf('.')
  const last = shown.slice(dot)
  const isExtension =
    dot > 0 && last.length > 1 && !last.includes(' ') && byteLength(last) <= EXTENSION_MAX_BYTES - 4
  if (!isExtension) return { stem: shown, extension: '' }
  const cut = dot > 4 && shown.slice(dot - 4, dot).toLowerCase() === '.tar' ? dot - 4 : dot
  return { stem: shown.slice(0, cut), extension: shown.slice(cut) }
}

/** Puts `mark` before the extension and shortens the stem, never within a code, to keep to 255 bytes. */
export function insertBeforeExtension(shown: string, mark: string): string {
  const { stem, extension } = splitName(shown)
  const room = NAME_MAX_BYTES - byteLength(mark) - byteLength(extension)
  return cutName(stem, room) + mark + extension
}

/** The longest beginning of a coded name within `maxBytes` that splits no code and no code point. */
export function cutName(coded: string, maxBytes: number): string {
  if (byteLength(coded) <= maxBytes) return coded
  let bytes = 0
  let end = 0
  for (const [token] of coded.matchAll(TOKEN)) {
    bytes += byteLength(token)
    if (bytes > maxBytes) break
    end += token.length
  }
  return coded.slice(0, end)
}
