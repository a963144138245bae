/** What every shell takes for one word as it is. */
const PLAIN = /^[\w./+,:=@%-]+$/
const CONTROL = /\p{Cc}/u

/** A word as a shell takes it: what is copied from a hint means what it says. */
export function shellQuote(word: string): string {
  if (PLAIN.test(word)) return word
  if (!CONTROL.test(word)) return `'${word.replaceAll("'", String.raw`'\''`)}'`
  // A line end between plain quotes would not be shown as one.
  const escaped = word
    .replaceAll(/['\\]/g, String.raw`\$&`)
    .replace(/\p{Cc}/gu, (letter) => `\\${letter.charCodeAt(0).toString(8).padStart(3, '0')}`)
  return `$'${escaped}'`
}
