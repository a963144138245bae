const TOKEN = /<([^<>:]+):[^<>]*>/g

/**
 * A mark that no other write has, of about so many bytes. It repeats its name, so that half of one, or one with
 * others' bytes in it, is no token.
 */
export function makeToken(name: string, bytes: number): string {
  const filler = `${name}.`.repeat(Math.ceil(bytes / (name.length + 1))).slice(0, bytes)
  return `<${name}:${filler}>`
}

/** The tokens that are whole in a content. */
export function tokensIn(content: string): readonly string[] {
  return [...content.matchAll(TOKEN)].flatMap(([token, name = '']) =>
    token === makeToken(name, token.length - name.length - 3) ? [token] : [],
  )
}

/** For people: long ones by name and length. */
export function shortened(content: string): string {
  const short = content.replaceAll(TOKEN, (token, name: string) =>
    token.length > 60 ? `<${name}: ${token.length} bytes>` : token,
  )
  const printable = short.replaceAll('\0', '\\0')
  return printable.length > 600 ? `${printable.slice(0, 600)}...` : printable
}
