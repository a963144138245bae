import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { DriveError, systemErrorCode } from '../domain/errors.ts'
import { HostGuard } from '../domain/host-guard.ts'
import type { Logger } from '../domain/logger.ts'
import { Doorkeeper, type OtherUsers } from './doorkeeper.ts'

interface LoopbackDeps {
  /** Answers a request that was not refused; rejects only by a bug. */
  readonly answer: (request: IncomingMessage, response: ServerResponse) => Promise<void>
  readonly log: Logger
}

export interface LoopbackSettings {
  readonly host: string
  /** 0 takes one that is free. */
  readonly port: number
  readonly others: OtherUsers
  /** Web pages that are answered: those that come from here, or none. */
  readonly pages: 'own' | 'none'
}

const REQUEST_LIMIT_MS = 10_000
/** A head is sent at once; one that is not holds a place that another request needs. */
const HEAD_LIMIT_MS = 3_000
const LOOK_AT_LIMITS_MS = 500

/** Answers over HTTP, but not to pages of other places, nor to other users unless it is for them. */
export class LoopbackServer {
  readonly #server: Server
  readonly #doorkeeper: Doorkeeper

  private constructor(server: Server, doorkeeper: Doorkeeper) {
    this.#server = server
    this.#doorkeeper = doorkeeper
  }

  /** Rejects with Node's own error when the address is not to be had. */
  static async start(deps: LoopbackDeps, settings: LoopbackSettings): Promise<LoopbackServer> {
    const gate = new Gate(settings)
    const limits = {
      headersTimeout: HEAD_LIMIT_MS,
      requestTimeout: REQUEST_LIMIT_MS,
      connectionsCheckingInterval: LOOK_AT_LIMITS_MS,
    }
    const server = createServer(limits, (request, response) => {
      answerOrRefuse(deps, gate, request, response).catch((error: unknown) => {
        deps.log.error({ error: String(error) }, 'A request over loopback failed.')
        response.destroy()
      })
    })
    const doorkeeper = new Doorkeeper(settings.others)
    doorkeeper.standBefore(server)
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(settings.port, settings.host, resolve)
    })
    return new LoopbackServer(server, doorkeeper)
  }

  /** Where it listens: `http://127.0.0.1:9469`. */
  get origin(): string {
    const { address, port, family } = this.#server.address() as AddressInfo
    return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#doorkeeper.letAllGo()
    await closed
  }
}

/** Why an address is not to be had, for a sentence: `another program listens there`. */
export function whyNotServed(error: unknown): string {
  const code = systemErrorCode(error) ?? String(error)
  return code === 'EADDRINUSE' ? 'another program listens there' : code
}

/** Sends a whole answer; `headers` come on top of those that each answer has. */
export function answerWith(
  response: ServerResponse,
  status: number,
  body: string | Buffer,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
    ...headers,
  })
  response.end(body)
}

async function answerOrRefuse(
  deps: LoopbackDeps,
  gate: Gate,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    gate.check(request)
  } catch (error) {
    if (!(error instanceof DriveError)) throw error
    answerWith(response, 403, `${error.message}\n`)
    return
  }
  await deps.answer(request, response)
}

/** Throws `forbidden` at what is not answered. */
class Gate {
  readonly #hosts: HostGuard
  readonly #settings: LoopbackSettings

  constructor(settings: LoopbackSettings) {
    this.#hosts = new HostGuard(settings.host)
    this.#settings = settings
  }

  check(request: IncomingMessage): void {
    this.#hosts.check(request.headers)
    this.#refusePages(request)
  }

  #refusePages(request: IncomingMessage): void {
    const { pages } = this.#settings
    if (pages === 'own' ? comesFromHere(request) : comesFromNoPage(request)) return
    const of = pages === 'own' ? ' of other places' : ''
    throw new DriveError('forbidden', `This is not for web pages${of}.`)
  }
}

/** A web page of another place may ask, though it cannot read the answer; the browser says so. */
function comesFromNoPage({ headers }: IncomingMessage): boolean {
  return headers.origin === undefined && isOfSite(headers['sec-fetch-site'])
}

function comesFromHere({ headers, method }: IncomingMessage): boolean {
  const { origin, host = '' } = headers
  const isOwn = origin === undefined ? method === 'GET' : origin === `http://${host}`
  // A link that is clicked elsewhere shows the page, which does nothing by that.
  const isLink = method === 'GET' && headers['sec-fetch-mode'] === 'navigate'
  return isOwn && (isLink || isOfSite(headers['sec-fetch-site']))
}

/** `none` is a person who typed the address; programs that are no browser say nothing. */
function isOfSite(site: string | string[] | undefined): boolean {
  return site === undefined || site === 'none' || site === 'same-origin'
}
