import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { DriveError } from '../domain/errors.ts'

const sha256 = (text: string): Buffer => createHash('sha256').update(text).digest()

/** The account of a token: 32 hex digits from which the token cannot be found. */
export function uidOf(token: string): string {
  return sha256(`bagfs account\n${token}`).toString('hex').slice(0, 32)
}

/** Knows the tokens that the service takes. */
export class Tokens {
  readonly #accounts: readonly { readonly digest: Buffer; readonly uid: string }[]

  constructor(tokens: readonly string[]) {
    this.#accounts = tokens.map((token) => ({ digest: sha256(token), uid: uidOf(token) }))
  }

  /**
   * The uid that a request is made for: `Authorization: Bearer <token>`, or `X-Authorization: <token>`
   * with or without `Bearer`. Throws `unauthorized`.
   */
  uidOfRequest(headers: IncomingHttpHeaders): string {
    const bearer = /^bearer +([^ ].*)$/i.exec(headers.authorization ?? '')?.[1]
    const other = [headers['x-authorization'] ?? ''].flat()[0]?.replace(/^bearer +/i, '')
    const uid = this.#find(bearer) ?? this.#find(other)
    if (uid !== undefined) return uid
    throw new DriveError('unauthorized', 'The token is missing or not known.', {
      fields: ['header', 'Authorization'],
    })
  }

  /** Compares with every token, in a time that does not depend on the token. */
  #find(token: string | undefined): string | undefined {
    const digest = sha256(token ?? '')
    let found: string | undefined
    for (const account of this.#accounts) {
      if (timingSafeEqual(account.digest, digest)) found = account.uid
    }
    return token === undefined ? undefined : found
  }
}
