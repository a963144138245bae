import type { AuthHeader, Resolved } from './settings.ts'

type AuthSettings = Pick<Resolved, 'token' | 'authHeader' | 'onAuthHeader' | 'renewToken'>

/** Knows the token, and which of the two headers the service takes it in. */
export class Auth {
  /** All that were used: none of them may show anywhere. */
  readonly tokens: Set<string>
  readonly #settings: AuthSettings
  #token: string
  #header: AuthHeader
  /** True once the service took the token: a later 401 means the token, not the header. */
  #isProven = false
  #renewing: Promise<string | undefined> | undefined

  constructor(settings: AuthSettings) {
    this.#settings = settings
    this.#token = settings.token
    this.#header = settings.authHeader
    this.tokens = new Set([settings.token])
  }

  get token(): string {
    return this.#token
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
    this.#settings.onAuthHeader(header)
  }

  /** After a token was refused: true when there is another one to try. */
  async renew(refused: string): Promise<boolean> {
    if (refused !== this.#token) return true
    this.#renewing ??= this.#settings.renewToken(refused).finally(() => {
      this.#renewing = undefined
    })
    const token = await this.#renewing
    if (token === undefined || token === refused) return refused !== this.#token
    this.#token = token
    this.tokens.add(token)
    return true
  }
}
