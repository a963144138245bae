import { gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import { detail, failureOf, json, recordingLog, scripted, serviceFor, TOKEN } from './harness.ts'

const bag = toBagId('b1')
const account = { uid: 'u', space_left: 10, capacity: 20 }

describe('the short calls', () => {
  it('send what docs/SERVICE.md says, under the prefix of the URL', async () => {
    const server = await scripted(({ path }, response) => {
      if (path.endsWith('/user')) json(response, account)
      else if (path.endsWith('/files_list')) json(response, [])
      else json(response, path.endsWith('add_by_id') ? { message: 'Bag added' } : { success: true })
    })
    const service = serviceFor(`${server.url}/pre/`)
    expect(await service.getAccount()).toEqual({ uid: 'u', spaceLeft: 10, capacity: 20 })
    expect(await service.listFiles()).toEqual([])
    await service.addById(toBagId('a&b ü'))
    await service.deleteBag(toBagId('x"y'))
    const seen = server.received.map(({ method, path, body }) => [method, path, body.toString()])
    expect(seen).toEqual([
      ['GET', '/pre/api/user', ''],
      ['GET', '/pre/api/user/files_list', ''],
      ['POST', '/pre/api/bag/add_by_id', 'bag_id=a%26b+%C3%BC'],
      ['DELETE', '/pre/api/bag', '{"bag_id":"x\\"y"}'],
    ])
    for (const { headers } of server.received) {
      expect(headers.authorization).toBe(`Bearer ${TOKEN}`)
    }
  })

  it('go one after the other over one connection', async () => {
    const server = await scripted((_request, response) => {
      json(response, { success: true })
    })
    let connections = 0
    server.server.on('connection', () => (connections += 1))
    const service = serviceFor(server.url)
    for (let n = 0; n < 5; n += 1) await service.deleteBag(bag)
    // A second one may open while the first is being handed back.
    expect(connections).toBeLessThanOrEqual(2)
  })

  it('may be many at a time, without a word of Node about a leak', async () => {
    const warnings: string[] = []
    const onWarning = ({ name }: Error): void => void warnings.push(name)
    process.on('warning', onWarning)
    onTestFinished(() => void process.off('warning', onWarning))
    const server = await scripted((_request, response) => {
      json(response, account)
    })
    const service = serviceFor(server.url)
    await Promise.all(Array.from({ length: 20 }, () => service.getAccount()))
    expect(warnings).toEqual([])
  })

  it('skip a record that cannot be used, with a warning that names it', async () => {
    const server = await scripted((_request, response) => {
      json(response, [{ filename: 'lost.txt' }, { filename: 'ok.txt', bag_id: 'b' }])
    })
    const log = recordingLog()
    const records = await serviceFor(server.url, {}, log).listFiles()
    expect(records.map(({ name }) => name)).toEqual(['ok.txt'])
    expect(log.lines).toMatchObject([{ level: 'warn', fields: { name: 'lost.txt', index: 0 } }])
  })

  it('read a compressed answer', async () => {
    const server = await scripted((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(JSON.stringify(account)))
    })
    expect((await serviceFor(server.url).getAccount()).uid).toBe('u')
  })

  it.each([
    ['<html>Log in</html>', /web page/],
    ['', /empty/],
    ['nope', /not JSON/],
    ['{"files":[]}', /no list/],
  ])('reject %j where a list is due, with a hint', async (body, message) => {
    const server = await scripted((_request, response) => response.writeHead(200).end(body))
    const error = await failureOf(serviceFor(server.url).listFiles())
    expect(error.code).toBe('bad-answer')
    expect(error.facts.hint).toMatch(/URL/)
    expect(error.message).toMatch(message)
    expect(server.received).toHaveLength(1)
  })

  it('reject an answer that is damaged on its way', async () => {
    const server = await scripted((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end('this is no gzip'),
    )
    expect((await failureOf(serviceFor(server.url).getAccount())).code).toBe('bad-answer')
  })

  it.each([404, 410])(
    'take a bag that is gone for deleted (%i), but not the web page of a wrong URL',
    async (status) => {
      const server = await scripted((_request, response, turn) => {
        if (turn === 0) json(response, { detail: 'Bag not found' }, status)
        else response.writeHead(status).end('<html><title>Not here</title></html>')
      })
      const service = serviceFor(server.url)
      await service.deleteBag(bag)
      expect(await failureOf(service.deleteBag(bag))).toMatchObject({
        code: 'bad-answer',
        facts: { status },
      })
    },
  )

  it('do not take a delete for done when the service says no', async () => {
    const server = await scripted((_request, response) => {
      json(response, { success: false })
    })
    const service = serviceFor(server.url, { retries: 1 })
    expect((await failureOf(service.deleteBag(bag))).code).toBe('server-error')
  })
})

describe('a failed call', () => {
  it("says the service's own words, the status and the fields", async () => {
    const server = await scripted((_request, response) => {
      json(response, detail('bag_id'), 422)
    })
    const error = await failureOf(serviceFor(server.url).addById(bag))
    expect(error).toMatchObject({ code: 'rejected', facts: { status: 422, fields: ['bag_id'] } })
    expect(error.message).toBe('Importing bag b1 failed: bag_id: field required (status 422).')
    expect(server.received).toHaveLength(1)
  })

  it('joins what the service says as a sentence with the status', async () => {
    const server = await scripted((_request, response) => {
      json(response, { detail: 'There is no bag b1 here.' }, 404)
    })
    const error = await failureOf(serviceFor(server.url).addById(bag))
    expect(error.message).toBe('Importing bag b1 failed: There is no bag b1 here (status 404).')
  })

  it.each([500, 502, 503, 429])('is made again after %i, with the log told', async (status) => {
    const server = await scripted((_request, response, turn) => {
      if (turn < 2) json(response, { detail: 'busy' }, status)
      else json(response, account)
    })
    const log = recordingLog()
    await serviceFor(server.url, {}, log).getAccount()
    expect(server.received).toHaveLength(3)
    expect(log.lines.map(({ fields }) => fields['status'])).toEqual([status, status])
  })

  it('is not made again before the time that the service asks for', async () => {
    const server = await scripted((_request, response) => {
      response.setHeader('retry-after', '60')
      json(response, { detail: 'slow down' }, 429)
    })
    const error = await failureOf(serviceFor(server.url).getAccount())
    expect(error).toMatchObject({ code: 'rate-limited', facts: { retryAfterMs: 60_000 } })
    expect(server.received).toHaveLength(1)
  })

  it('is made again when the listing was cut', async () => {
    const server = await scripted((_request, response, turn) => {
      if (turn > 0) {
        json(response, [])
        return
      }
      response.writeHead(200, { 'content-length': 100 })
      response.write('[{"bag', () => response.socket?.destroy())
    })
    expect(await serviceFor(server.url).listFiles()).toEqual([])
    expect(server.received).toHaveLength(2)
  })

  it('keeps its status when the reason is cut', async () => {
    const server = await scripted((_request, response) => {
      response.writeHead(403, { 'content-length': 100 })
      response.write('{"det', () => response.socket?.destroy())
    })
    expect((await failureOf(serviceFor(server.url).getAccount())).code).toBe('forbidden')
  })

  it('is unavailable when nothing listens', async () => {
    const server = await scripted(() => undefined)
    await new Promise((resolve) => server.server.close(resolve))
    const error = await failureOf(serviceFor(server.url, { retries: 1 }).getAccount())
    expect(error.code).toBe('unavailable')
    expect(error.facts.hint).toMatch(/URL/)
    expect(error.facts.notReached).toBe(true)
    expect(error.facts.answerLost).toBeUndefined()
  })

  it('says that the answer to an import was lost, and does not import again', async () => {
    const server = await scripted((_request, response) => response.socket?.destroy())
    const error = await failureOf(serviceFor(server.url).addById(bag))
    expect(error).toMatchObject({ code: 'unavailable', facts: { answerLost: true } })
    expect(server.received).toHaveLength(1)
  })

  it('repeats a delete whose answer was lost', async () => {
    const server = await scripted((_request, response, turn) => {
      if (turn === 0) response.socket?.destroy()
      else json(response, { detail: 'Not found' }, 404)
    })
    await serviceFor(server.url).deleteBag(bag)
    expect(server.received).toHaveLength(2)
  })

  it('is a bad answer when the other side speaks no HTTP', async () => {
    const server = await scripted((_request, response) => response.socket?.end('SSH-2.0-x\r\n\r\n'))
    expect((await failureOf(serviceFor(server.url).getAccount())).code).toBe('bad-answer')
  })
})

describe('the token', () => {
  it('is tried in X-Authorization after a 401, and what worked is remembered', async () => {
    const server = await scripted(({ headers }, response) => {
      if (headers['x-authorization'] === TOKEN) json(response, account)
      else json(response, { detail: 'no' }, 401)
    })
    const told: string[] = []
    const service = serviceFor(server.url, { onAuthHeader: (header) => told.push(header) })
    await service.getAccount()
    await service.getAccount()
    expect(told).toEqual(['x-authorization'])
    expect(server.received.map(({ headers }) => 'authorization' in headers)).toEqual([
      true,
      false,
      false,
    ])
  })

  it('starts with the header that is known, and falls back the other way', async () => {
    const server = await scripted(({ headers }, response) => {
      if (headers.authorization === undefined) json(response, {}, 401)
      else json(response, account)
    })
    const told: string[] = []
    await serviceFor(server.url, {
      authHeader: 'x-authorization',
      onAuthHeader: (header) => told.push(header),
    }).getAccount()
    expect(told).toEqual(['bearer'])
  })

  it('that is wrong is unauthorized after one try of each header', async () => {
    const server = await scripted((_request, response) => {
      json(response, { detail: `Unknown token ${TOKEN}` }, 401)
    })
    const error = await failureOf(serviceFor(server.url).getAccount())
    expect(error.code).toBe('unauthorized')
    expect(error.message).not.toContain(TOKEN)
    expect(server.received).toHaveLength(2)
  })

  it('that expires later is not tried in the other header', async () => {
    const server = await scripted((_request, response, turn) => {
      if (turn === 0) json(response, account)
      else json(response, { detail: 'expired' }, 401)
    })
    const service = serviceFor(server.url)
    await service.getAccount()
    await failureOf(service.getAccount())
    expect(server.received).toHaveLength(2)
  })
})

describe('a redirect', () => {
  it('to another origin is refused, and the token is not sent there', async () => {
    const other = await scripted((_request, response) => {
      json(response, account)
    })
    const server = await scripted((_request, response) =>
      response.writeHead(307, { location: `${other.url}/api/user?t=${TOKEN}` }).end(),
    )
    const error = await failureOf(serviceFor(server.url).getAccount())
    expect(error).toMatchObject({ code: 'bad-answer' })
    expect(error.message).toContain(other.url)
    expect(other.received).toEqual([])
  })

  it('within the origin is followed once', async () => {
    const server = await scripted(({ path }, response) => {
      if (path === '/api/user') response.writeHead(301, { location: '/new?x=1' }).end()
      else json(response, account)
    })
    await serviceFor(server.url).getAccount()
    expect(server.received.map(({ path }) => path)).toEqual(['/api/user', '/new?x=1'])
  })

  it('that goes in circles is refused', async () => {
    const server = await scripted((_request, response) =>
      response.writeHead(302, { location: '/api/user' }).end(),
    )
    expect((await failureOf(serviceFor(server.url).getAccount())).code).toBe('bad-answer')
    expect(server.received).toHaveLength(2)
  })

  it.each([404, 410])(
    'to what is not there (%i) is no word about a bag, and one to the same path elsewhere is',
    async (status) => {
      let target = '/files'
      const server = await scripted(({ path }, response) => {
        const isFirst = path.startsWith('/api/')
        if (isFirst) response.writeHead(307, { location: target.replace('*', path) }).end()
        else json(response, { detail: 'Not found' }, status)
      })
      const service = serviceFor(server.url)
      for (const elsewhere of ['/files', `/files?of=${bag}`]) {
        target = elsewhere
        expect((await failureOf(service.download(bag))).code).toBe('bad-answer')
        expect((await failureOf(service.deleteBag(bag))).code).toBe('bad-answer')
      }
      target = '/v2*/?again=1'
      expect((await failureOf(service.download(bag))).code).toBe('gone')
      await service.deleteBag(bag)
    },
  )

  it('repeats a POST on 307 and refuses to make a GET of it on 302', async () => {
    const server = await scripted(({ path }, response, turn) => {
      if (turn === 0) response.writeHead(307, { location: `${path}/` }).end()
      else if (turn === 1) json(response, { message: 'Bag added' })
      else response.writeHead(302, { location: '/login' }).end()
    })
    const service = serviceFor(server.url)
    await service.addById(bag)
    expect(server.received[1]).toMatchObject({ method: 'POST', path: '/api/bag/add_by_id/' })
    expect(server.received[1]?.body.toString()).toBe('bag_id=b1')
    expect((await failureOf(service.addById(bag))).code).toBe('bad-answer')
    expect(server.received).toHaveLength(3)
  })
})
