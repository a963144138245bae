import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'

/** A line of so many bytes per second to a server of this machine, shared by all connections. */
export class SlowLink {
  /** Bytes that came from the server. */
  receivedBytes = 0
  readonly url: string
  readonly #server: Server
  readonly #sockets: Set<Socket>
  readonly #bytesPerS: number
  /** When the line is free again, in ms as `performance.now` counts. */
  #freeAtMs = 0

  private constructor(server: Server, sockets: Set<Socket>, bytesPerS: number) {
    this.#server = server
    this.#sockets = sockets
    this.#bytesPerS = bytesPerS
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  static async to(url: string, bytesPerS: number): Promise<SlowLink> {
    const { hostname, port } = new URL(url)
    const sockets = new Set<Socket>()
    const server = createServer((client) => {
      const upstream = connect(Number(port), hostname)
      for (const socket of [client, upstream]) {
        sockets.add(socket)
        socket.on('error', () => socket.destroy())
        socket.on('close', () => sockets.delete(socket))
      }
      client.pipe(upstream)
      upstream.pipe(link.#throttle()).pipe(client)
      client.on('close', () => upstream.destroy())
      upstream.on('close', () => client.end())
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const link = new SlowLink(server, sockets, bytesPerS)
    return link
  }

  #throttle(): Transform {
    return new Transform({
      highWaterMark: 64 * 1024,
      transform: (chunk: Buffer, _encoding, done) => {
        this.#pass(chunk.length).then(
          () => {
            done(null, chunk)
          },
          (error: unknown) => {
            done(error instanceof Error ? error : new Error(String(error)))
          },
        )
      },
    })
  }

  async #pass(bytes: number): Promise<void> {
    this.receivedBytes += bytes
    const now = performance.now()
    this.#freeAtMs = Math.max(now, this.#freeAtMs) + (bytes * 1e3) / this.#bytesPerS
    const waitMs = this.#freeAtMs - now
    if (waitMs > 1) await sleep(waitMs)
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
