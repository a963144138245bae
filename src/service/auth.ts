import type { AuthHeader } from './settings.ts'

/** Knows which of the two headers the service takes the token in. */
export class Auth {
  readonly #token: string
  readonly #onChange: (header: AuthHeader) => void
  #header: AuthHeader
  /** True once the service took the token: a later 401 means the token, not the header. */
  #isProven = false

  constructor(settings: {
    readonly token: string
    readonly authHeader: AuthHeader
    readonly onAuthHeader: (header: AuthHeader) => void
  }) {
    this.#token = settings.token
    this.#header = settings.authHeader
    this.#onChange = settings.onAuthHeader
  }

  /** The headers to try in turn, for one call. */
  candidates(): readonly AuthHeader[] {
    if (this.#isProven) return [this.#header]
    return this.#header === 'bearer' ? ['bearer', 'x-authorization'] : ['x-authorization', 'bearer']
  }

  headersFor(header: AuthHeader): Record<string, string> {
    return header === 'bearer'
      ? { authorization: `Bearer ${this.#token}` }
      : { 'x-authorization': this.#token }
  }

  /** Remembers the header with which the service did what was asked. */
  accepted(header: AuthHeader): void {
    this.#isProven = true
    if (header === this.#header) return
    this.#header = header
    this.#onChange(header)
  }
}
