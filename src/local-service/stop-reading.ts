import type { IncomingMessage } from 'node:http'

/** For a client that looks for the answer only between two pieces of its body. */
const MOST_BYTES = 1024 * 1024
const LONGEST_MS = 5_000

/** Lets a request that is refused send little more of its body, and not for long. */
export function stopReading(request: IncomingMessage): void {
  const { socket } = request
  let count = 0
  const timer = setTimeout(() => socket.destroy(), LONGEST_MS).unref()
  request.on('data', (piece: Buffer) => {
    count += piece.length
    if (count > MOST_BYTES) socket.destroy()
  })
  for (const event of ['end', 'close'] as const) {
    request.once(event, () => {
      clearTimeout(timer)
    })
  }
}
