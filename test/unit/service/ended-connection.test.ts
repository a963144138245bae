import { once } from 'node:events'
import net, { type AddressInfo, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import { bytesOf, failureOf, serviceFor } from './harness.ts'

const bag = toBagId('b1')
/** As much as waits for a reader before the connection is paused. */
const BUFFERED = 256 * 1024
const content = Buffer.alloc(BUFFERED, 'x')

/** A server that sends these bytes to each client; `first` is the connection. */
async function rawServer(
  answer: readonly (string | Buffer)[],
  options: { readonly stays?: true } = {},
): Promise<{ url: string; first: Promise<Socket> }> {
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.cork()
      for (const piece of answer) socket.write(piece)
      if (options.stays === undefined) socket.end()
      else socket.uncork()
    })
  })
  const first = once(server, 'connection').then(([socket]) => socket as Socket)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, first }
}

/** undici has seen that the connection ended, and closed it on its side. */
async function closed({ first }: { first: Promise<Socket> }): Promise<void> {
  const socket = await first
  if (!socket.closed) await once(socket, 'close')
}

const head = (...lines: string[]): string => `HTTP/1.1 ${lines.join('\r\n')}\r\n\r\n`
const ok = (...lines: string[]): string => head('200 OK', ...lines)
const length = (bytes: number): string => `Content-Length: ${bytes}`
const CLOSE = 'Connection: close'
const CHUNKED = 'Transfer-Encoding: chunked'

describe('a connection that ends while nobody reads the answer', () => {
  it.each([
    ['with its length', [ok(CLOSE, length(BUFFERED)), content]],
    ['without a length', [ok(CLOSE), content]],
    ['that was to stay', [ok(length(BUFFERED)), content]],
  ])('gives the whole answer: %s', async (_kind, answer) => {
    const server = await rawServer(answer)
    const { body } = await serviceFor(server.url).download(bag)
    await closed(server)
    expect((await bytesOf(body)).equals(content)).toBe(true)
  })

  it.each([
    ['with its length', (whole: Buffer) => [length(whole.length), whole]],
    [
      'in chunks',
      (whole: Buffer) => [CHUNKED, `${whole.length.toString(16)}\r\n`, whole, '\r\n0\r\n\r\n'],
    ],
  ])('gives the whole range to a reader that takes its time: %s', async (_kind, parts) => {
    const whole = Buffer.alloc(4 * BUFFERED, 'y')
    const range = `Content-Range: bytes 10-${whole.length + 9}/${whole.length + 20}`
    const [framing = '', ...body] = parts(whole)
    const partial = head('206 Partial Content', CLOSE, range, String(framing))
    const server = await rawServer([partial, ...body])
    const wanted = { start: 10, end: whole.length + 10 }
    const download = await serviceFor(server.url).download(bag, { range: wanted })
    const pieces: Buffer[] = []
    for await (const piece of download.body as AsyncIterable<Buffer>) {
      pieces.push(piece)
      for (let turn = 0; turn < 20; turn++) await nextTurn()
    }
    expect(Buffer.concat(pieces).equals(whole)).toBe(true)
  })

  it.each([
    ['its length', true, [ok(CLOSE, length(BUFFERED)), content]],
    ['chunks', true, [ok(CLOSE, CHUNKED), '0\r\n\r\n']],
    ['the connection alone', false, [ok(CLOSE), content]],
  ])('tells whether the end may be a cut: it is told by %s', async (_kind, isEndTold, answer) => {
    const server = await rawServer(answer)
    const download = await serviceFor(server.url).download(bag)
    expect(download.isEndTold).toBe(isEndTold)
    download.body.destroy()
  })

  it.each([
    ['with its length', [ok(CLOSE, length(BUFFERED + 1)), content]],
    ['in chunks', [ok(CLOSE, CHUNKED), `${BUFFERED.toString(16)}\r\n`, content]],
    ['that was to stay', [ok(length(BUFFERED + 1)), content]],
  ])('tells that it cut the answer: %s', async (_kind, answer) => {
    const server = await rawServer(answer)
    const { body } = await serviceFor(server.url).download(bag)
    await closed(server)
    expect(await failureOf(bytesOf(body))).toMatchObject({ code: 'unavailable' })
  })

  it.each([
    ['with its length', [ok(CLOSE, length(BUFFERED + 1)), content]],
    ['without a length', [ok(CLOSE), content]],
  ])('tells of a reset: %s', async (_kind, answer) => {
    const server = await rawServer(answer, { stays: true })
    const { body } = await serviceFor(server.url).download(bag)
    await expect.poll(() => body.readableLength).toBe(BUFFERED)
    const socket = await server.first
    socket.resetAndDestroy()
    await expect.poll(() => body.errored).not.toBeNull()
    expect(await failureOf(bytesOf(body))).toMatchObject({ code: 'unavailable' })
  })
})
