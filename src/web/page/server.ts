import type { PageRefusal } from '../view.ts'

/** What became of a request: its answer, why it was refused, or that nothing listens any more. */
export type ServerAnswer<Value> =
  | { readonly is: 'done'; readonly value: Value }
  | { readonly is: 'refused'; readonly refusal: PageRefusal }
  | { readonly is: 'unreachable' }

const KEY = 'bagfs-session'
const PATIENCE_MS = 60_000

/** The requests of one page. The session is kept by the tab, so that it can be loaded anew. */
export class Server {
  #session = sessionStorage.getItem(KEY)

  get hasSession(): boolean {
    return this.#session !== null
  }

  /** Gives the token of the link away for a session. */
  async open(token: string): Promise<ServerAnswer<unknown>> {
    const answer = await this.post<{ readonly session: string }>('/session', { token })
    if (answer.is === 'done') {
      this.#session = answer.value.session
      sessionStorage.setItem(KEY, answer.value.session)
    }
    return answer
  }

  get<Value>(path: string): Promise<ServerAnswer<Value>> {
    return this.#ask<Value>(path, { method: 'GET' })
  }

  post<Value>(path: string, body: unknown): Promise<ServerAnswer<Value>> {
    const headers = { 'content-type': 'application/json' }
    return this.#ask<Value>(path, { method: 'POST', headers, body: JSON.stringify(body) })
  }

  async #ask<Value>(path: string, init: RequestInit): Promise<ServerAnswer<Value>> {
    const headers = new Headers(init.headers)
    if (this.#session !== null) headers.set('authorization', `Bearer ${this.#session}`)
    try {
      const signal = AbortSignal.timeout(PATIENCE_MS)
      const response = await fetch(path, { ...init, headers, signal })
      const body: unknown = await response.json()
      if (response.ok) return { is: 'done', value: body as Value }
      return { is: 'refused', refusal: body as PageRefusal }
    } catch (error) {
      // No answer, or one that no page server gives: the command has ended.
      if (error instanceof Error) return { is: 'unreachable' }
      throw error
    }
  }
}
