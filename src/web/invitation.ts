import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

const SECRET_BYTES = 32

/**
 * Lets one page in: the token of a link buys a session, once. The session is a header and no cookie: browsers send
 * cookies to every port of an address, also to one that another user listens at.
 */
export class Invitation {
  readonly token = randomBytes(SECRET_BYTES).toString('base64url')
  readonly #session = randomBytes(SECRET_BYTES).toString('base64url')
  #isUsed = false

  /** The session; `used` for the token at the second time, undefined for any other. */
  take(token: string): { readonly session: string } | 'used' | undefined {
    if (!isSame(token, this.token)) return undefined
    if (this.#isUsed) return 'used'
    this.#isUsed = true
    return { session: this.#session }
  }

  /** True for the header of a page that was let in. */
  admits(authorization: string | undefined): boolean {
    return this.#isUsed && isSame(authorization ?? '', `Bearer ${this.#session}`)
  }
}

/** In a time that tells nothing of how much is right. */
function isSame(one: string, other: string): boolean {
  const sum = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(sum(one), sum(other))
}
