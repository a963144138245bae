import type { History, Loss } from './history.ts'
import type { Listed } from './listings.ts'
import { tokensIn } from './tokens.ts'

/** Why a token may go: `to` is what a program wrote in its place, if anything. */
interface Reason {
  readonly to: string | undefined
}

/** A listing that a drive may have looked at when a program did away with a name. */
interface Looked {
  readonly listed: Pick<Listed, 'bags'>
  readonly name: string
  readonly inside: string
  readonly to: string | undefined
}

/**
 * What programs were promised, and what they did away with. A token that was acknowledged has to be in the account in
 * the end, and once it is there at each moment. One that an operation on a version with it did away with need not.
 */
export class Ledger {
  readonly #history: History
  readonly #acknowledged = new Set<string>()
  readonly #away = new Map<string, Reason[]>()
  readonly #looked: Looked[] = []

  constructor(history: History) {
    this.#history = history
  }

  get acknowledged(): ReadonlySet<string> {
    return this.#acknowledged
  }

  acknowledge(tokens: readonly string[]): void {
    for (const token of tokens) this.#acknowledged.add(token)
  }

  /** A program did away with this content, in favour of the token `to` if that is given. */
  doAway(content: string, to?: string): void {
    for (const token of tokensIn(content)) this.#note(token, to)
  }

  /** As `doAway`, with what the listed bags of this name had at this path inside. */
  doAwayListed(looked: Looked): void {
    this.#looked.push(looked)
  }

  isAway(token: string): boolean {
    return this.#away.has(token)
  }

  /** Acknowledged, and not in the account although no operation did away with them. */
  missing(): readonly string[] {
    this.#readListed()
    return [...this.#acknowledged].filter(
      (token) => !this.#away.has(token) && !this.#history.has(token),
    )
  }

  /** Tokens that were in no bag for a while although they were to stay, or before what took their place was stored. */
  goneTooSoon(): readonly Loss[] {
    this.#readListed()
    return this.#history.losses.filter(
      (loss) => this.#acknowledged.has(loss.token) && !this.#mayGo(loss.token, loss.at, new Set()),
    )
  }

  #mayGo(token: string, at: number, seen: Set<string>): boolean {
    if (seen.has(token)) return false
    seen.add(token)
    return (this.#away.get(token) ?? []).some(
      ({ to }) =>
        to === undefined ||
        (this.#history.storedAt(to) ?? Infinity) <= at ||
        this.#mayGo(to, at, seen),
    )
  }

  #readListed(): void {
    for (const { listed, name, inside, to } of this.#looked.splice(0)) {
      const bags = new Set(listed.bags)
      for (const life of this.#history.named(name)) {
        const content = bags.has(life.id) ? life.files.get(inside) : undefined
        if (content !== undefined) this.doAway(content, to)
      }
    }
  }

  #note(token: string, to: string | undefined): void {
    const reasons = this.#away.get(token) ?? []
    if (!reasons.some((reason) => reason.to === to)) this.#away.set(token, [...reasons, { to }])
  }
}
