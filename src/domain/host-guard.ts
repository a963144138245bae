import type { IncomingHttpHeaders } from 'node:http'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { DriveError } from '../domain/errors.ts'

/**
 * Refuses requests that were meant for another host. A web page can have its own name lead to this
 * machine (DNS rebinding); its requests still carry that name. An address cannot be made to lead elsewhere.
 */
export class HostGuard {
  readonly #names: ReadonlySet<string>

  /** `host` is what the server listens on; where others can reach it, it goes by the machine's name, too. */
  constructor(host: string) {
    const isLocal = /^(?:localhost$|127\.|::1$)/.test(host)
    const machine = isLocal ? [] : [hostname(), `${hostname()}.local`]
    this.#names = new Set([host, 'localhost', ...machine].map((name) => name.toLowerCase()))
  }

  /** Throws `forbidden`. A request without the header is none of a browser. */
  check({ host }: IncomingHttpHeaders): void {
    if (host === undefined) return
    const name = host.replace(/:\d*$/, '').toLowerCase()
    if (this.#names.has(name) || isIP(name.replace(/^\[(.*)\]$/, '$1')) !== 0) return
    throw new DriveError('forbidden', 'This service does not answer to that name.', {
      fields: ['header', 'Host'],
    })
  }
}
