import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * A line of limited speed to a server on this machine: a TCP proxy on 127.0.0.1 that hands on no more
 * than so many bytes per second in each direction, whatever the number of connections. Or each connection gets as much, as where
 * a long way to the server is what limits it.
 */
export class SlowLine {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Bytes per second in each direction; may be changed at any time. */
  bytesPerS: number
  /** Bytes that came from the server. */
  received = 0

  private constructor(port: number, bytesPerS: number, isOfEach: boolean) {
    this.bytesPerS = bytesPerS
    const shared = [new Pace(this), new Pace(this)] as const
    this.#server = createServer({ pauseOnConnect: true }, (near) => {
      const far = connect({ host: '127.0.0.1', port })
      for (const socket of [near, far]) this.#keep(socket)
      const [up, down] = isOfEach ? [new Pace(this), new Pace(this)] : shared
      far.once('connect', () => {
        this.#carry(near, far, up, () => undefined)
        this.#carry(far, near, down, (bytes) => (this.received += bytes))
      })
    })
  }

  /** A line to `port`; `Infinity` for one without a limit. With `isOfEach`, each connection has the limit to itself. */
  static async open(port: number, bytesPerS: number, isOfEach = false): Promise<SlowLine> {
    const line = new SlowLine(port, bytesPerS, isOfEach)
    line.#server.listen(0, '127.0.0.1')
    await once(line.#server, 'listening')
    return line
  }

  get url(): string {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('The line has no port.')
    return `http://127.0.0.1:${address.port}`
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }

  /** When one end goes, however it goes, the other does. */
  #keep(socket: Socket): void {
    this.#sockets.add(socket)
    socket.setNoDelay(true)
    socket.once('close', () => this.#sockets.delete(socket))
  }

  #carry(from: Socket, to: Socket, pace: Pace, count: (bytes: number) => void): void {
    const pump = async (): Promise<void> => {
      for await (const chunk of from as AsyncIterable<Buffer>) {
        await pace.take(chunk.length)
        count(chunk.length)
        if (!to.write(chunk)) await once(to, 'drain')
      }
      to.end()
    }
    // A reset connection is what a real line would hand on too.
    pump().catch(() => {
      from.destroy()
      to.destroy()
    })
  }
}

/** Lets bytes through one after the other at an even speed. */
class Pace {
  readonly #line: { readonly bytesPerS: number }
  #freeAtMs = 0

  constructor(line: { readonly bytesPerS: number }) {
    this.#line = line
  }

  async take(bytes: number): Promise<void> {
    const now = performance.now()
    this.#freeAtMs = Math.max(this.#freeAtMs, now) + (bytes / this.#line.bytesPerS) * 1e3
    const wait = this.#freeAtMs - now
    // Timers keep whole milliseconds; what is less is made up for by the next wait.
    if (wait >= 1) await sleep(wait)
  }
}
