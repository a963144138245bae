import type http from 'node:http'

interface Snapshot {
  readonly atMs: number
  readonly body: string
}

/** A listing that shows each change so many milliseconds after it was made. */
export class LaggingListing {
  readonly #target: string
  readonly #lagMs: number
  /** Oldest first. */
  readonly #snapshots: Snapshot[] = []

  constructor(target: string, lagMs: number) {
    this.#target = target
    this.#lagMs = lagMs
  }

  isAskedBy({ url = '' }: http.IncomingMessage): boolean {
    return url.endsWith('/files_list')
  }

  /** Takes down what the listing is now; call after each change, before a client hears of it. */
  async note({ headers }: http.IncomingMessage): Promise<void> {
    this.#snapshots.push(await this.#look(headers.authorization, Date.now()))
  }

  /** True when the listing has all that was noted. */
  get isUpToDate(): boolean {
    return (this.#snapshots.at(-1)?.atMs ?? 0) <= Date.now() - this.#lagMs
  }

  async answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const body = await this.body(request)
    response.writeHead(200, { 'content-type': 'application/json' }).end(body)
  }

  /** What the service answers now, as JSON. */
  async body({ headers }: Pick<http.IncomingMessage, 'headers'>): Promise<string> {
    // What was there before the first change was there all the time.
    if (this.#snapshots.length === 0) {
      this.#snapshots.push(await this.#look(headers.authorization, 0))
    }
    const known = this.#snapshots.filter(({ atMs }) => atMs <= Date.now() - this.#lagMs)
    const { body } = known.at(-1) ?? this.#snapshots[0] ?? { body: '[]' }
    return body
  }

  async #look(authorization: string | undefined, atMs: number): Promise<Snapshot> {
    const answer = await fetch(`${this.#target}/api/user/files_list`, {
      headers: { authorization: authorization ?? '' },
    })
    return { atMs, body: await answer.text() }
  }
}
