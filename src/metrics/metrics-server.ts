import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { MetricsAddress } from '../config/metrics-address.ts'
import { DriveError, systemErrorCode } from '../domain/errors.ts'
import { HostGuard } from '../domain/host-guard.ts'
import type { Logger } from '../domain/logger.ts'
import { peerUser } from './peer-user.ts'

interface MetricsServerDeps {
  /** The figures as they are now. */
  readonly text: () => Promise<string>
  readonly contentType: string
  readonly log: Logger
}

/** More than Prometheus and a person need; what hangs on connections must not take the drive's descriptors. */
const MOST_CONNECTIONS = 32
const REQUEST_LIMIT_MS = 10_000
const PATH = '/metrics'
const ROOT_USER = 0

/** Serves the figures over HTTP. Pages of other places are refused, and other users unless the address is for them. */
export class MetricsServer {
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
  }

  /** Rejects `usage` when the address is not to be had. */
  static async start(deps: MetricsServerDeps, address: MetricsAddress): Promise<MetricsServer> {
    const guard = new HostGuard(address.host)
    const server = createServer((request, response) => {
      answer(deps, guard, address, request, response).catch((error: unknown) => {
        deps.log.error({ error: String(error) }, 'A request for the figures failed.')
        response.destroy()
      })
    })
    server.maxConnections = MOST_CONNECTIONS
    server.headersTimeout = REQUEST_LIMIT_MS
    server.requestTimeout = REQUEST_LIMIT_MS
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(address.port, address.host, resolve)
      })
    } catch (error) {
      throw notServed(address, error)
    }
    return new MetricsServer(server)
  }

  get url(): string {
    const { address, port, family } = this.#server.address() as AddressInfo
    return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}${PATH}`
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }
}

function notServed({ host, port }: MetricsAddress, cause: unknown): DriveError {
  const code = systemErrorCode(cause) ?? String(cause)
  const why = code === 'EADDRINUSE' ? 'another program listens there' : code
  return new DriveError('usage', `The figures cannot be served at ${host}:${port}: ${why}.`, {
    cause,
    hint: 'Give --metrics another port: each drive needs its own.',
  })
}

async function answer(
  { text, contentType }: MetricsServerDeps,
  guard: HostGuard,
  { forOthers }: MetricsAddress,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    guard.check(request.headers)
    refusePages(request)
    if (!forOthers) await refuseOthers(request)
  } catch (error) {
    if (!(error instanceof DriveError)) throw error
    say(response, 403, `${error.message}\n`)
    return
  }
  const isPath = request.url?.split('?')[0] === PATH
  if (!isPath) say(response, 404, `The figures are at ${PATH}.\n`)
  else if (request.method !== 'GET') say(response, 405, 'The figures can only be read.\n')
  else say(response, 200, await text(), contentType)
}

/** A web page of another place may ask, though it cannot read the answer; the browser says so. */
function refusePages({ headers }: IncomingMessage): void {
  const site = headers['sec-fetch-site'] ?? 'none'
  if (headers.origin === undefined && (site === 'none' || site === 'same-origin')) return
  throw new DriveError('forbidden', 'This is not for web pages.')
}

async function refuseOthers({ socket }: IncomingMessage): Promise<void> {
  const user = await peerUser(socket)
  if (user === ROOT_USER || (user !== undefined && user === process.getuid?.())) return
  throw new DriveError(
    'forbidden',
    'This drive is of another user. --metrics ADDRESS,for-others lets others in.',
  )
}

function say(response: ServerResponse, status: number, body: string, type = 'text/plain'): void {
  response.writeHead(status, {
    'content-type': type,
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
  })
  response.end(body)
}
