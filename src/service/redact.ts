/** Takes the token out of foreign text before it reaches a log or an error. */
export type Redact = (text: string) => string

/** `tokens` may grow: the account can get a new one. */
export function makeRedact(tokens: Iterable<string>): Redact {
  return (text) =>
    [...tokens].flatMap(formsOf).reduce((clean, form) => clean.replaceAll(form, '***'), text)
}

function formsOf(token: string): readonly string[] {
  return [...new Set([token, encodeURIComponent(token), JSON.stringify(token).slice(1, -1)])]
}
