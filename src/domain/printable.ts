/** Controls, and the marks that reorder text: a name with them could fool or command a terminal. */
const UNSAFE = /[\p{Cc}\p{Cs}\p{Bidi_Control}\u2028\u2029]/gu

/** Text that is safe to show on one line of a terminal; what is not is written as `\xNN` or `\u{NNNN}`. */
export function toPrintable(text: string): string {
  return text.replace(UNSAFE, (character) => {
    const hex = (character.codePointAt(0) ?? 0).toString(16)
    return hex.length <= 2 ? `\\x${hex.padStart(2, '0')}` : `\\u{${hex}}`
  })
}

/** JSON that is as safe to show; a parser gets the same value back. Without an indent it has one line. */
export function toPrintableJson(value: unknown, indent = 2): string {
  return JSON.stringify(value, undefined, indent).replace(UNSAFE, (character) =>
    character === '\n'
      ? character
      : `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`,
  )
}
