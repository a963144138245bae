import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { peerUser } from './peer-user.ts'

/** Whether other users of the machine are answered; if not, the sentence that they are told. */
export type OtherUsers = 'answered' | { readonly toldThat: string }

/** More than programs that ask for figures and a person need; what hangs must not take all descriptors. */
const MOST_SERVED = 32
/** With those whose user is being looked up, which takes milliseconds. */
const MOST_CONNECTIONS = 512
/** Those that are told why they go. More than these go without a word. */
const MOST_TOLD = 8
const TELLING_MS = 1_000
const ROOT_USER = 0

/**
 * Stands before a server: connections of other users end before anything of them is read. So they take no place that
 * this user needs.
 */
export class Doorkeeper {
  readonly #others: OtherUsers
  /** All that are open; they remove themselves. */
  readonly #open = new Set<Socket>()
  #served = 0
  #told = 0

  constructor(others: OtherUsers) {
    this.#others = others
  }

  /** Before the server listens. */
  standBefore(server: Server): void {
    const listeners = server.listeners('connection')
    server.removeAllListeners('connection')
    server.maxConnections = MOST_CONNECTIONS
    const serve = (socket: Socket): void => {
      this.#served += 1
      socket.once('close', () => (this.#served -= 1))
      for (const listener of listeners) listener.call(server, socket)
    }
    server.on('connection', (socket: Socket) => {
      this.#open.add(socket)
      socket.once('close', () => this.#open.delete(socket))
      // The server does not listen to it yet, and an error that is not heard of ends the process.
      socket.on('error', () => socket.destroy())
      this.#admit(socket, serve).catch(() => socket.destroy())
    })
  }

  letAllGo(): void {
    for (const socket of this.#open) socket.destroy()
  }

  async #admit(socket: Socket, serve: (socket: Socket) => void): Promise<void> {
    const isWelcome = await this.#isWelcome(socket)
    if (socket.destroyed) return
    if (!isWelcome) this.#sendAway(socket)
    else if (this.#served >= MOST_SERVED) socket.destroy()
    else serve(socket)
  }

  async #isWelcome(socket: Socket): Promise<boolean> {
    if (this.#others === 'answered') return true
    const user = await peerUser(socket)
    return user === ROOT_USER || (user !== undefined && user === process.getuid?.())
  }

  #sendAway(socket: Socket): void {
    if (this.#others === 'answered' || this.#told >= MOST_TOLD) {
      socket.destroy()
      return
    }
    this.#told += 1
    const timer = setTimeout(() => socket.destroy(), TELLING_MS)
    socket.once('close', () => {
      this.#told -= 1
      clearTimeout(timer)
    })
    // What was sent is taken, and not looked at: else the answer would be lost with it.
    socket.resume()
    socket.end(refusal(`${this.#others.toldThat}\n`))
  }
}

/** As the server would answer. */
function refusal(body: string): string {
  return [
    'HTTP/1.1 403 Forbidden',
    'content-type: text/plain; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
    '',
    body,
  ].join('\r\n')
}
