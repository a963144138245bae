/** Takes the token out of foreign text before it reaches a log or an error. */
export type Redact = (text: string) => string

export function makeRedact(token: string): Redact {
  const forms = [...new Set([token, encodeURIComponent(token), JSON.stringify(token).slice(1, -1)])]
  return (text) => forms.reduce((clean, form) => clean.replaceAll(form, '***'), text)
}
