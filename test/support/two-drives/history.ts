import { shortened, tokensIn } from './tokens.ts'

export type Who = 'A' | 'B'

/** One time that the account had a bag. A bag that is stored again has another life under the same id. */
export interface Life {
  readonly id: string
  /** The name that the service lists. */
  readonly name: string
  /** Content by the path inside the folder; of a file by ''. */
  readonly files: ReadonlyMap<string, string>
  readonly storedBy: Who
  /** Like all times here, in milliseconds of `performance.now()`: the service had answered by then. */
  readonly storedAt: number
  readonly endedAt?: number
}

/** A token that was in the account and then in no bag of it. */
export interface Loss {
  readonly token: string
  readonly at: number
  readonly by: Who
}

/** All that became of the account: which bags it had, and when. */
export class History {
  /** In order of storing; a life that ends is replaced by one with its end. */
  readonly #lives: Life[] = []
  /** Places in `#lives` of the bags that the account has. */
  readonly #living = new Map<string, number>()
  /** In how many living bags a token is. */
  readonly #counts = new Map<string, number>()
  readonly #storedAt = new Map<string, number>()
  readonly losses: Loss[] = []
  changedAt = 0

  stored(life: Omit<Life, 'endedAt'>): void {
    this.changedAt = life.storedAt
    const living = this.#living.get(life.id)
    const before = living === undefined ? undefined : this.#lives[living]
    // The same again has another time of upload.
    if (living !== undefined && before !== undefined) {
      this.#lives[living] = { ...life, storedBy: before.storedBy }
      return
    }
    this.#living.set(life.id, this.#lives.push(life) - 1)
    for (const token of tokensOf(life)) {
      this.#counts.set(token, (this.#counts.get(token) ?? 0) + 1)
      if (!this.#storedAt.has(token)) this.#storedAt.set(token, life.storedAt)
    }
  }

  ended(id: string, by: Who, at: number): void {
    this.changedAt = at
    const place = this.#living.get(id)
    const life = place === undefined ? undefined : this.#lives[place]
    if (place === undefined || life === undefined) return
    this.#living.delete(id)
    this.#lives[place] = { ...life, endedAt: at }
    for (const token of tokensOf(life)) {
      const left = (this.#counts.get(token) ?? 1) - 1
      this.#counts.set(token, left)
      if (left === 0) this.losses.push({ token, at, by })
    }
  }

  /** When a token was stored first. */
  storedAt(token: string): number | undefined {
    return this.#storedAt.get(token)
  }

  /** True while a bag of the account has it. */
  has(token: string): boolean {
    return (this.#counts.get(token) ?? 0) > 0
  }

  /** Bags that the account has, oldest first, by the beginning of their names. */
  living(prefix: string): readonly Life[] {
    const lives = [...this.#living.values()].flatMap((place) => this.#lives[place] ?? [])
    return lives
      .filter(({ name }) => name.startsWith(prefix))
      .sort((a, b) => a.storedAt - b.storedAt)
  }

  /** Every life of bags that were listed under a name. */
  named(name: string): readonly Life[] {
    return this.#lives.filter((life) => life.name === name)
  }

  /** Every life of bags whose names begin so, for people: when, whose, and with which content. */
  told(prefix: string): readonly string[] {
    const meant = this.#lives.filter(({ name }) => name.startsWith(prefix))
    return meant.map(({ id, name, files, storedBy, storedAt, endedAt = Infinity }) => {
      const content = [...files].map(([path, text]) => `${path} ${shortened(text)}`).join(', ')
      const during = `${storedAt.toFixed(0)} to ${endedAt.toFixed(0)}`
      return `${during} ${name} ${id.slice(0, 8)} of ${storedBy}: ${content}`
    })
  }

  /** The last life of a bag. */
  bag(id: string): Life | undefined {
    return this.#lives.findLast((life) => life.id === id)
  }
}

function tokensOf({ files }: Pick<Life, 'files'>): ReadonlySet<string> {
  return new Set([...files.values()].flatMap(tokensIn))
}
