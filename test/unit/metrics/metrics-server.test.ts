import { Agent, request, type IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'
import { describe, expect, it, onTestFinished } from 'vitest'
import { parseMetricsAddress } from '../../../src/config/metrics-address.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { MetricsServer } from '../../../src/metrics/metrics-server.ts'
import { asOther } from '../../support/other-user.ts'

const FIGURES = 'bagfs_uploads 0\n'

async function serve(address = '127.0.0.1:0'): Promise<string> {
  const server = await MetricsServer.start(
    {
      text: () => Promise.resolve(FIGURES),
      contentType: 'text/plain; version=0.0.4',
      log: silentLogger,
    },
    parseMetricsAddress(address),
  )
  onTestFinished(() => server.close())
  return server.url
}

interface Told {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

async function ask(
  url: string,
  options: {
    readonly method?: string
    readonly headers?: Record<string, string>
    readonly agent?: Agent
  } = {},
): Promise<Told> {
  const answer = await new Promise<Parameters<Parameters<typeof request>[2] & object>[0]>(
    (resolve, reject) => {
      request(url, options, resolve).once('error', reject).end()
    },
  )
  return { status: answer.statusCode, headers: answer.headers, body: await text(answer) }
}

describe('the figures are served', () => {
  it.each(['127.0.0.1:0', '[::1]:0', 'localhost:0'])('at %s to the own user', async (address) => {
    const { status, headers, body } = await ask(await serve(address))
    expect({ status, body }).toEqual({ status: 200, body: FIGURES })
    expect(headers['content-type']).toBe('text/plain; version=0.0.4')
    expect(headers['access-control-allow-origin']).toBeUndefined()
  })

  it('over one connection again and again, and to an IPv6 socket that speaks IPv4', async () => {
    const url = await serve()
    const agent = new Agent({ keepAlive: true })
    onTestFinished(() => {
      agent.destroy()
    })
    for (let turn = 0; turn < 3; turn += 1) expect((await ask(url, { agent })).status).toBe(200)
    const mapped = url.replace('127.0.0.1', '[::ffff:127.0.0.1]')
    expect((await ask(mapped)).status).toBe(200)
  })

  it('at one path, to be read only', async () => {
    const url = await serve()
    expect(await ask(new URL('/', url).href)).toMatchObject({ status: 404 })
    expect(await ask(url, { method: 'POST' })).toMatchObject({ status: 405 })
  })

  it('nowhere when another program listens there', async () => {
    const { port } = new URL(await serve())
    await expect(serve(`127.0.0.1:${port}`)).rejects.toMatchObject({
      code: 'usage',
      message: `The figures cannot be served at 127.0.0.1:${port}: another program listens there.`,
    })
  })
})

describe('a request is refused', () => {
  it.each([
    ['that was meant for another name', { host: 'evil.example' }],
    ['that was meant for another name, at this port', { host: 'evil.example:9469' }],
    ['of a page of another place', { origin: 'http://evil.example' }],
    ['of a page without a place', { origin: 'null' }],
    ['of a page that cannot read the answer', { 'sec-fetch-site': 'cross-site' }],
  ])('%s', async (_, headers) => {
    const { status, body } = await ask(await serve(), {
      headers,
    })
    expect(status).toBe(403)
    expect(body).not.toContain('bagfs_')
  })

  /** What another user is answered. */
  async function toldToOther(url: string, host = new URL(url).hostname): Promise<string> {
    const { port } = new URL(url)
    const question = 'GET /metrics HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n'
    const bare = host.replace(/^\[|\]$/g, '')
    const { said } = await asOther(
      `exec 3<>'/dev/tcp/${bare}/${port}' && printf '${question}' >&3 && cat <&3`,
    )
    return said
  }

  it.runIf(process.getuid?.() === 0).each([
    ['127.0.0.1:0', '127.0.0.1'],
    ['127.0.0.1:0', '::ffff:127.0.0.1'],
    ['[::1]:0', '::1'],
  ])('of another user at %s, who asks %s', async (address, host) => {
    const said = await toldToOther(await serve(address), host)
    expect(said).toContain('HTTP/1.1 403')
    expect(said).toContain('of another user')
    expect(said).not.toContain('bagfs_')
  })

  it.runIf(process.getuid?.() === 0)(
    'of another user, unless the address is for others',
    async () => {
      const said = await toldToOther(await serve('127.0.0.1:0,for-others'))
      expect(said).toContain('HTTP/1.1 200')
      expect(said).toContain(FIGURES.trim())
    },
  )
})
