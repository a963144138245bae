import type { TokenPlace } from '../config/token.ts'
import { isDriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { describeTokenPlace, readToken } from '../profiles/tokens.ts'

/** Calls to the service wait for the new token meanwhile. */
const LONGEST_LOOK_MS = 10_000

interface TokenRenewalDeps {
  /** Where the token of the drive came from. */
  readonly place: TokenPlace
  readonly log: Logger
  /** The account that the drive shows; undefined until it is known. */
  readonly uid: () => string | undefined
  /** Asks the service whose token this is; rejects when it does not say. */
  readonly uidOf: (token: string) => Promise<string>
  /** Told of a token before it is used: it must be in no log. */
  readonly onSecret: (token: string) => void
  /** Told of a token that the service takes for this account. */
  readonly onRenewed: (token: string) => void
}

/** Looks for a new token where the old one came from, so that a drive outlives an expired token. */
export class TokenRenewal {
  readonly #deps: TokenRenewalDeps
  #foreign: string | undefined

  constructor(deps: TokenRenewalDeps) {
    this.#deps = deps
  }

  /** A token that the service takes for this account, if there is one by now. Never rejects. */
  async renew(refused: string): Promise<string | undefined> {
    const { place, log } = this.#deps
    const kept = describeTokenPlace(place)
    try {
      const token = await readToken(place, { longestMs: LONGEST_LOOK_MS })
      if (token === refused || token === this.#foreign) return undefined
      this.#deps.onSecret(token)
      return (await this.#isOurs(token)) ? token : undefined
    } catch (error) {
      const fields = { kept, error: String(error) }
      if (isDriveError(error, 'unauthorized')) log.info(fields, 'The new token is refused, too.')
      else log.warn(fields, 'No new token could be had.')
      return undefined
    }
  }

  /** What waits for one account must not go to another. */
  async #isOurs(token: string): Promise<boolean> {
    const { place, log, uid, uidOf, onRenewed } = this.#deps
    const kept = describeTokenPlace(place)
    const own = uid()
    if (own === undefined) return false
    if ((await uidOf(token)) !== own) {
      this.#foreign = token
      log.error({ kept }, 'What is kept is the token of another account: it is not used.')
      return false
    }
    log.info({ kept }, 'There is a new token, which is used from now on.')
    onRenewed(token)
    return true
  }
}
