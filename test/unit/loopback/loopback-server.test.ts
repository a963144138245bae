import { request } from 'node:http'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import {
  answerWith,
  LoopbackServer,
  type LoopbackSettings,
} from '../../../src/loopback/loopback-server.ts'
import { asOther } from '../../support/other-user.ts'

/** More than it serves at once. */
const MANY = 200
const HALF_A_HEAD = 'GET / HTTP/1.1\r\nHost: 127'

async function serve(others: LoopbackSettings['others']): Promise<URL> {
  const answer = (_: unknown, response: Parameters<typeof answerWith>[0]): Promise<void> => {
    answerWith(response, 200, 'answered')
    return Promise.resolve()
  }
  const server = await LoopbackServer.start(
    { answer, log: silentLogger },
    { host: '127.0.0.1', port: 0, others, pages: 'own' },
  )
  onTestFinished(() => server.close())
  return new URL(server.origin)
}

/** What is answered, or the code of the failure. */
async function ask(url: URL): Promise<string> {
  return new Promise((resolve) => {
    request(url, { agent: false }, (answer) => {
      resolve(text(answer))
    })
      .once('error', (error: NodeJS.ErrnoException) => {
        resolve(error.code ?? error.message)
      })
      .end()
  })
}

/** Where another program says that it is ready, by a connection that it waits on. */
async function gate(): Promise<{ readonly port: number; readonly comer: Promise<Socket> }> {
  const server = createServer()
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const comer = new Promise<Socket>((resolve) => server.once('connection', resolve))
  return { port: (server.address() as AddressInfo).port, comer }
}

describe('a request of this user is served', () => {
  it.runIf(process.getuid?.() === 0)(
    'while another user holds many connections, each with half a head',
    async () => {
      const url = await serve({ toldThat: 'Not for others.' })
      const { port, comer } = await gate()
      const held = asOther(`trap '' PIPE
        for each in $(seq ${MANY}); do
          exec {fd}<>/dev/tcp/127.0.0.1/${url.port} && printf 'GET / HTTP/1.1\\r\\nHost: 127' >&$fd
        done 2> /dev/null
        exec 3<>/dev/tcp/127.0.0.1/${port} && cat <&3`)
      const other = await comer
      for (let turn = 0; turn < 3; turn += 1) expect(await ask(url)).toBe('answered')
      other.destroy()
      await held
    },
  )

  it('soon after connections of its own held every place, each with half a head', async () => {
    const url = await serve({ toldThat: 'Not for others.' })
    const sockets = Array.from({ length: MANY }, () => {
      const socket = connect(Number(url.port), '127.0.0.1')
      socket.on('error', () => undefined).write(HALF_A_HEAD)
      return socket
    })
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
    })
    await expect.poll(() => ask(url)).not.toBe('answered')
    await expect.poll(() => ask(url), { timeout: 9_000 }).toBe('answered')
  })
})

it('ends although a client holds a connection', async () => {
  const url = await serve('answered')
  const socket = connect(Number(url.port), '127.0.0.1')
  socket.on('error', () => undefined).write(HALF_A_HEAD)
  await new Promise((resolve) => socket.once('connect', resolve))
  expect(await ask(url)).toBe('answered')
})
