import { request as httpRequest, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { hostname } from 'node:os'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { HostGuard } from '../../../src/domain/host-guard.ts'
import { startLocalService } from '../../../src/local-service/server.ts'
import { makeTempDir, multipartBody, MULTIPART, startFixture, TOKEN } from './fixture.ts'

const ID = 'a'.repeat(64)

function form(fields: Record<string, string>): RequestInit {
  return { method: 'POST', body: new URLSearchParams(fields) }
}

describe('the endpoints', () => {
  it('answer an upload, the listing, the account, a download and a delete', async () => {
    const service = await startFixture({ capacityBytes: 100 })
    const before = Date.now() / 1000
    const id = await service.put('a.txt', 'hello', 'a greeting')
    expect(id).toMatch(/^[0-9a-f]{64}$/)
    const [record] = await service.list()
    expect(record).toEqual({
      filename: 'a.txt',
      size: 5,
      uploaded_at: expect.any(Number) as number,
      description: 'a greeting',
      bag_id: id,
    })
    expect(record?.['uploaded_at']).toBeGreaterThanOrEqual(before)
    expect(await service.json('/api/user')).toEqual({
      uid: expect.stringMatching(/^[0-9a-f]{32}$/) as string,
      space_left: 95,
      capacity: 100,
    })
    expect(await (await service.ask(`/api/bag/download/${id}`)).text()).toBe('hello')
    const gone = await service.ask('/api/bag', { ...form({ bag_id: id }), method: 'DELETE' })
    expect(await gone.json()).toEqual({ success: true })
    expect(await service.list()).toEqual([])
    expect(await service.json('/api/user')).toMatchObject({ space_left: 100 })
    expect((await service.ask(`/api/bag/download/${id}`)).status).toBe(404)
  })

  it.each([
    [
      'JSON',
      (id: string) => ({
        body: JSON.stringify({ bag_id: id }),
        headers: { 'content-type': 'application/json' },
      }),
    ],
    ['urlencoded', (id: string) => ({ body: new URLSearchParams({ bag_id: id }) })],
    [
      'multipart',
      (id: string) => ({
        body: new Uint8Array(multipartBody([{ name: 'bag_id', content: id }])),
        headers: MULTIPART,
      }),
    ],
  ])('take a bag id as %s', async (_kind, toInit) => {
    const service = await startFixture({ tokens: [TOKEN, 'token-two'] })
    const id = await service.put('a.txt', 'hello', 'words')
    const add = { method: 'POST', ...toInit(id) }
    const added = await service.ask('/api/bag/add_by_id', add, 'token-two')
    expect(await added.json()).toEqual({ message: 'Bag added' })
    expect(await service.list('token-two')).toMatchObject([
      { filename: 'a.txt', size: 5, description: 'words', bag_id: id },
    ])
    const deleted = await service.ask('/api/bag', { method: 'DELETE', ...toInit(id) })
    expect(await deleted.json()).toEqual({ success: true })
    expect(await service.list()).toEqual([])
    const kept = await service.ask(`/api/bag/download/${id}`, {}, 'token-two')
    expect(await kept.text()).toBe('hello')
  })

  it('send JSON as exactly application/json', async () => {
    const service = await startFixture()
    for (const path of ['/api/user', '/api/user/files_list', '/api/nothing']) {
      expect((await service.ask(path)).headers.get('content-type')).toBe('application/json')
    }
  })

  it('keep the bags of one token from another', async () => {
    const service = await startFixture({ tokens: [TOKEN, 'token-two'] })
    const id = await service.put('a.txt', 'hello')
    expect(await service.list('token-two')).toEqual([])
    expect((await service.ask(`/api/bag/download/${id}`, {}, 'token-two')).status).toBe(404)
    const init = { ...form({ bag_id: id }), method: 'DELETE' }
    expect((await service.ask('/api/bag', init, 'token-two')).status).toBe(404)
  })

  it('answer 404 for a bag that nobody has', async () => {
    const service = await startFixture()
    const download = await service.ask(`/api/bag/download/${ID}`)
    expect(download.status).toBe(404)
    expect(await download.json()).toEqual({
      detail: [{ loc: ['bag_id'], msg: `There is no bag ${ID} here.`, type: 'not_found' }],
    })
    expect((await service.ask('/api/bag/add_by_id', form({ bag_id: ID }))).status).toBe(404)
    const init = { ...form({ bag_id: ID }), method: 'DELETE' }
    expect((await service.ask('/api/bag', init)).status).toBe(404)
  })

  it('append the extra records to every listing as they are', async () => {
    const odd = { filename: 'a\0/b', size: -1, uploaded_at: 1.5, description: '', bag_id: 'odd' }
    const service = await startFixture({ extraRecords: () => [odd, odd] })
    const id = await service.put('a.txt', 'hello')
    expect(await service.list()).toEqual([expect.objectContaining({ bag_id: id }), odd, odd])
  })
})

describe('a request that cannot be served', () => {
  const missing = (field: string, msg: string): object => ({
    detail: [{ loc: ['body', field], msg, type: 'validation_error' }],
  })

  it.each([
    ['no token', {}],
    ['a wrong token', { authorization: 'Bearer token-onf' }],
    ['a token without Bearer', { authorization: TOKEN }],
    ['a longer token', { authorization: `Bearer ${TOKEN}x` }],
    ['an empty token', { 'x-authorization': '' }],
  ])('gets 401 with %s', async (_what, headers) => {
    const service = await startFixture()
    const answer = await fetch(`${service.url}/api/user`, {
      headers: headers as Record<string, string>,
    })
    expect(answer.status).toBe(401)
    expect(await answer.json()).toEqual({
      detail: [
        {
          loc: ['header', 'Authorization'],
          msg: 'The token is missing or not known.',
          type: 'unauthorized',
        },
      ],
    })
  })

  it.each([
    { authorization: `bearer ${TOKEN}` },
    { 'x-authorization': TOKEN },
    { 'x-authorization': `Bearer ${TOKEN}` },
    { authorization: 'Bearer wrong', 'x-authorization': TOKEN },
  ])('is served with %o', async (headers) => {
    const service = await startFixture()
    const answer = await fetch(`${service.url}/api/user`, {
      headers: headers as Record<string, string>,
    })
    expect(answer.status).toBe(200)
  })

  it('gets 401 before its upload is read', async () => {
    const service = await startFixture()
    const parts = [{ name: 'file', filename: 'a', content: Buffer.alloc(8e6) }]
    expect((await service.send('/api/files/upload', parts, 'wrong')).status).toBe(401)
  })

  it.each(['POST /api/bag/add_by_id', 'DELETE /api/bag'])(
    'gets 422 at %s without a bag id',
    async (route) => {
      const service = await startFixture()
      const [method = '', path = ''] = route.split(' ')
      const inits: RequestInit[] = [
        {},
        { body: '{}', headers: { 'content-type': 'application/json' } },
        { body: new URLSearchParams({ bag_id: '' }) },
        { body: new Uint8Array(multipartBody([{ name: 'x', content: 'y' }])), headers: MULTIPART },
        { body: 'bag_id', headers: { 'content-type': 'text/odd' } },
      ]
      for (const init of inits) {
        const answer = await service.ask(path, { method, ...init })
        expect(answer.status).toBe(422)
        expect(await answer.json()).toMatchObject({
          detail: [{ loc: ['body', 'bag_id'], type: 'validation_error' }],
        })
      }
    },
  )

  it.each(['/api/files/upload', '/api/folders/upload'])(
    'gets 422 at %s without a file',
    async (path) => {
      const service = await startFixture()
      const answer = await service.send(path, [{ name: 'description', content: 'x' }])
      expect(answer.status).toBe(422)
      expect(await answer.json()).toEqual(missing('file', 'Field required'))
      const plain = await service.ask(path, form({ file: 'x' }))
      expect(plain.status).toBe(422)
      expect(await plain.json()).toMatchObject({ detail: [{ loc: ['body', 'file'] }] })
    },
  )

  it('gets 400 for broken JSON, a broken form and a broken address', async () => {
    const service = await startFixture()
    const json = { method: 'DELETE', body: '{', headers: { 'content-type': 'application/json' } }
    const odd = { method: 'POST', body: 'x', headers: { 'content-type': 'multipart/form-data' } }
    const answers = [
      await service.ask('/api/bag', json),
      await service.ask('/api/files/upload', odd),
      await service.ask('/api/bag/add_by_id', odd),
      await service.ask('/api/bag/download/%ff'),
    ]
    for (const answer of answers) {
      expect(answer.status).toBe(400)
      expect(answer.headers.get('content-type')).toBe('application/json')
      expect(await answer.json()).toMatchObject({ detail: [{ type: 'malformed_request' }] })
    }
  })

  it('gets 400 when it is not HTTP', async () => {
    const service = await startFixture()
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1')
    socket.end('what is this?\r\n\r\n')
    const [answer] = (await once(socket, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 400 [^]*"malformed_request"/)
  })

  it('gets 404 at an unknown address', async () => {
    const service = await startFixture()
    const answer = await service.ask('/api/nothing?x=1')
    expect(answer.status).toBe(404)
    expect(await answer.json()).toMatchObject({ detail: [{ type: 'not_found' }] })
  })
})

describe('startLocalService', () => {
  it('tells of every answer', async () => {
    const service = await startFixture()
    const id = await service.put('a.txt', 'hello')
    await (
      await service.ask(`/api/bag/download/${id}?x=1`, { headers: { range: 'bytes=1-2' } })
    ).text()
    await service.ask('/api/user', {}, 'wrong')
    expect(service.events).toEqual([
      {
        method: 'POST',
        path: '/api/files/upload',
        status: 200,
        bagId: id,
        name: 'a.txt',
        bytes: 5,
      },
      {
        method: 'GET',
        path: `/api/bag/download/${id}`,
        status: 206,
        bagId: id,
        bytes: 2,
        range: 'bytes=1-2',
      },
      { method: 'GET', path: '/api/user', status: 401 },
    ])
  })

  it('ends although clients keep their connections', async () => {
    const service = await startFixture()
    const socket = connect(Number(new URL(service.url).port), '127.0.0.1')
    await once(socket, 'connect')
    const closed = once(socket, 'close')
    socket.resume()
    await service.close()
    await closed
  })

  it.each([
    { tokens: [] },
    { tokens: ['two words'] },
    { tokens: [''] },
    { port: 70_000 },
    { capacityBytes: -1 },
    { capacityBytes: 0.5 },
    { dataDir: '' },
  ])('refuses %o', async (odd) => {
    const settings = { dataDir: await makeTempDir(), tokens: [TOKEN], ...odd }
    await expect(startLocalService(settings, { log: silentLogger })).rejects.toMatchObject({
      code: 'usage',
    })
  })

  it('says that the port is taken, and leaves the directory free', async () => {
    const port = Number(new URL((await startFixture()).url).port)
    const settings = { dataDir: await makeTempDir(), tokens: [TOKEN] }
    await expect(
      startLocalService({ ...settings, port }, { log: silentLogger }),
    ).rejects.toMatchObject({ code: 'busy' })
    await (await startLocalService(settings, { log: silentLogger })).close()
  })

  it('refuses a data directory that another service uses', async () => {
    const { dataDir } = await startFixture()
    const settings = { dataDir, tokens: [TOKEN] }
    await expect(startLocalService(settings, { log: silentLogger })).rejects.toMatchObject({
      code: 'locked',
      message: expect.stringContaining(`process ${process.pid}`) as string,
    })
  })
})

describe('what is refused before it is looked at', () => {
  /** Sends the head, then pieces of a body until the other side ends; answers what it said, and the bytes sent. */
  const flood = async (
    url: string,
    head: readonly string[],
  ): Promise<{ said: string; sent: number }> => {
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    let said = ''
    let sent = 0
    socket.on('data', (chunk) => (said += chunk.toString()))
    socket.on('error', () => undefined)
    const piece = Buffer.alloc(65_536)
    const send = (): void => {
      while (!socket.destroyed && sent < MOST_SENT) {
        sent += piece.length
        if (!socket.write(piece)) {
          socket.once('drain', send)
          return
        }
      }
      socket.end()
    }
    socket.once('connect', () => {
      socket.write([...head, `Content-Length: ${MOST_SENT}`, '', ''].join('\r\n'))
      send()
    })
    await new Promise((resolve) => socket.once('close', resolve))
    return { said, sent }
  }
  const MOST_SENT = 128 * 2 ** 20

  it('is read no further: a body that comes with a wrong token', async () => {
    const service = await startFixture()
    const { said, sent } = await flood(service.url, [
      'POST /api/files/upload HTTP/1.1',
      `Host: ${new URL(service.url).host}`,
      'Authorization: Bearer wrong',
      'Content-Type: multipart/form-data; boundary=x',
    ])
    expect(said).toMatch(/^HTTP\/1\.1 401 /)
    expect(sent).toBeLessThan(MOST_SENT / 2)
    expect(service.events).toMatchObject([{ status: 401 }])
    // A small one does not cost the connection.
    const refused = await service.ask('/api/user', form({ a: 'b' }), 'wrong')
    expect(refused.status).toBe(401)
    expect((await service.ask('/api/user')).status).toBe(200)
  })

  it('is a form of many fields', async () => {
    const service = await startFixture()
    const fields = Array.from({ length: 20 }, (_, index) => ({ name: `f${index}`, content: 'x' }))
    const file = { name: 'file', filename: 'a.txt', content: 'a' }
    for (const path of ['/api/files/upload', '/api/bag/add_by_id']) {
      const answer = await service.send(path, [...fields, file])
      expect(answer.status).toBe(400)
    }
    expect(await service.list()).toEqual([])
  })

  it.each([
    ['evil.example', 403],
    ['evil.example:80', 403],
    ['127.0.0.1.evil.example', 403],
    ['localhost:1', 200],
    ['127.0.0.1', 200],
    ['[::1]:7790', 200],
    ['192.168.1.5:7790', 200],
  ])('is a request for another host: %s', async (host, status) => {
    const service = await startFixture()
    const request = httpRequest(`${service.url}/api/user`, {
      headers: { host, authorization: `Bearer ${TOKEN}` },
    })
    const [answer] = (await once(request.end(), 'response')) as [IncomingMessage]
    answer.resume()
    expect(answer.statusCode).toBe(status)
  })

  it('is no request for the name that it listens on', () => {
    const named = new HostGuard('files.example')
    expect(() => {
      named.check({ host: 'Files.example:80' })
    }).not.toThrow()
    expect(() => {
      named.check({ host: 'other.example:80' })
    }).toThrow(expect.objectContaining({ code: 'forbidden' }))
    expect(() => {
      new HostGuard('0.0.0.0').check({ host: `${hostname()}:80` })
    }).not.toThrow()
  })
})
