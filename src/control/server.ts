import { chmod, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import type { Socket } from 'node:net'
import { makeClosing } from '../domain/closing.ts'
import { fromFileSystem } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { ControlActions } from './actions.ts'
import { answer } from './routes.ts'

export type { ControlActions } from './actions.ts'

/** Answers on a unix socket, HTTP/1.1; routes.ts has what can be asked. */
export class ControlServer {
  readonly #server: Server
  readonly #socketPath: string
  /** Connections; they remove themselves. */
  readonly #open = new Set<Socket>()
  /** The request that is being answered on a connection. */
  readonly #requests = new WeakMap<Socket, IncomingMessage>()
  readonly #closing: AbortController

  private constructor(server: Server, closing: AbortController, socketPath: string) {
    this.#server = server
    this.#closing = closing
    this.#socketPath = socketPath
    server.on('connection', (socket) => {
      this.#open.add(socket)
      socket.once('close', () => this.#open.delete(socket))
    })
    server.prependListener('request', (request, response) => {
      this.#requests.set(request.socket, request)
      response.once('close', () => {
        this.#requests.delete(request.socket)
        if (!server.listening) request.socket.destroy()
      })
    })
  }

  /** The caller holds the lock of the state directory, so an old socket there is a dead one. */
  static async start(
    deps: { readonly actions: ControlActions; readonly log: Logger },
    settings: { readonly socketPath: string },
  ): Promise<ControlServer> {
    const { socketPath } = settings
    await rm(socketPath, { force: true })
    const closing = makeClosing()
    const server = createServer((request, response) => {
      answer(deps.actions, request, response, closing.signal).catch((error: unknown) => {
        deps.log.error({ error: String(error) }, 'A control request failed.')
        response.destroy()
      })
    })
    // Verifying a large cache may be silent for long.
    server.requestTimeout = 0
    try {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(socketPath, resolve)
      })
      await chmod(socketPath, 0o600)
    } catch (error) {
      throw fromFileSystem(error, 'The control socket cannot be made')
    }
    return new ControlServer(server, closing, socketPath)
  }

  /**
   * Ends when answers under way are sent; a trace ends now. Clients that have not sent a whole request are cut off.
   */
  async close(): Promise<void> {
    this.#closing.abort()
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#open) {
      if (this.#requests.get(socket)?.complete !== true) socket.destroy()
    }
    await closed
    await rm(this.#socketPath, { force: true })
  }
}
