import type { IncomingMessage, ServerResponse } from 'node:http'
import type { MetricsAddress } from '../config/metrics-address.ts'
import { DriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { answerWith, LoopbackServer, whyNotServed } from '../loopback/loopback-server.ts'

interface MetricsServerDeps {
  /** The figures as they are now. */
  readonly text: () => Promise<string>
  readonly contentType: string
  readonly log: Logger
}

const PATH = '/metrics'
const OF_ANOTHER = 'This drive is of another user. --metrics ADDRESS,for-others lets others in.'

/** Serves the figures over HTTP. Web pages are refused, and other users unless the address is for them. */
export class MetricsServer {
  readonly #server: LoopbackServer

  private constructor(server: LoopbackServer) {
    this.#server = server
  }

  /** Rejects `usage` when the address is not to be had. */
  static async start(deps: MetricsServerDeps, address: MetricsAddress): Promise<MetricsServer> {
    const { host, port, forOthers } = address
    const others = forOthers ? 'answered' : { toldThat: OF_ANOTHER }
    try {
      const server = await LoopbackServer.start(
        { answer: (request, response) => answer(deps, request, response), log: deps.log },
        { host, port, others, pages: 'none' },
      )
      return new MetricsServer(server)
    } catch (error) {
      throw notServed(address, error)
    }
  }

  get url(): string {
    return this.#server.origin + PATH
  }

  close(): Promise<void> {
    return this.#server.close()
  }
}

function notServed({ host, port }: MetricsAddress, cause: unknown): DriveError {
  const why = whyNotServed(cause)
  return new DriveError('usage', `The figures cannot be served at ${host}:${port}: ${why}.`, {
    cause,
    hint: 'Give --metrics another port: each drive needs its own.',
  })
}

async function answer(
  { text, contentType }: MetricsServerDeps,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const isPath = request.url?.split('?')[0] === PATH
  if (!isPath) answerWith(response, 404, `The figures are at ${PATH}.\n`)
  else if (request.method !== 'GET') answerWith(response, 405, 'The figures can only be read.\n')
  else answerWith(response, 200, await text(), { 'content-type': contentType })
}
