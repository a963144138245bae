import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import { bytesOf, failureOf, json, listening, scripted, serviceFor } from './harness.ts'

const bag = toBagId('b1')
const content = Buffer.from('0123456789')

const ranged = () =>
  scripted(({ headers }, response) => {
    const match = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '')
    if (match === null) {
      response.writeHead(200, { 'content-length': content.length, 'accept-ranges': 'bytes' })
      response.end(content)
      return
    }
    const start = Number(match[1])
    if (start >= content.length) {
      json(response, { detail: 'no such range' }, 416)
      return
    }
    const end = match[2] === '' ? content.length : Math.min(content.length, Number(match[2]) + 1)
    response.writeHead(206, { 'content-range': `bytes ${start}-${end - 1}/${content.length}` })
    response.end(content.subarray(start, end))
  })

describe('a download', () => {
  it('tells what the head says, and gives the bytes', async () => {
    const server = await scripted((_request, response) =>
      response
        .writeHead(200, {
          'content-length': 10,
          'content-type': 'application/octet-stream',
          'content-disposition': "attachment; filename*=UTF-8''%C3%BC.txt",
          'accept-ranges': 'bytes',
          etag: '"e1"',
        })
        .end(content),
    )
    const { body, ...head } = await serviceFor(server.url).download(toBagId('a/b ?'))
    expect(head).toEqual({
      start: 0,
      totalLength: 10,
      acceptsRanges: true,
      isDecoded: false,
      isEndTold: true,
      contentType: 'application/octet-stream',
      fileName: 'ü.txt',
      etag: '"e1"',
    })
    expect(await bytesOf(body)).toEqual(content)
    expect(server.received[0]).toMatchObject({ path: '/api/bag/download/a%2Fb%20%3F' })
    expect(server.received[0]?.headers).toMatchObject({ 'accept-encoding': 'identity' })
  })

  it('needs none of these headers', async () => {
    const server = await scripted((_request, response) => {
      response.write(content)
      response.end()
    })
    const { body, ...head } = await serviceFor(server.url).download(bag)
    expect(head).toEqual({
      start: 0,
      totalLength: undefined,
      acceptsRanges: false,
      isDecoded: false,
      isEndTold: true,
      contentType: undefined,
      fileName: undefined,
      etag: undefined,
    })
    expect(await bytesOf(body)).toEqual(content)
  })

  it.each(['.', '..'])('of a bag called %s stays on its path', async (id) => {
    const server = await ranged()
    ;(await serviceFor(server.url).download(toBagId(id))).body.destroy()
    expect(server.received[0]?.path).toBe(`/api/bag/download/${id.replaceAll('.', '%2E')}`)
  })

  it('starts where it is asked to when the service can', async () => {
    const server = await ranged()
    const service = serviceFor(server.url)
    const open = await service.download(bag, { range: { start: 4 } })
    expect(open).toMatchObject({ start: 4, totalLength: 10, acceptsRanges: true })
    expect((await bytesOf(open.body)).toString()).toBe('456789')
    const closed = await service.download(bag, { range: { start: 4, end: 6 } })
    expect((await bytesOf(closed.body)).toString()).toBe('45')
    const beyond = await service.download(bag, { range: { start: 8, end: 99 } })
    expect((await bytesOf(beyond.body)).toString()).toBe('89')
    const ranges = server.received.map(({ headers }) => headers.range)
    expect(ranges).toEqual(['bytes=4-', 'bytes=4-5', 'bytes=8-98'])
  })

  it('starts at 0 when the service knows no ranges', async () => {
    const server = await scripted((_request, response) => response.end(content))
    const { start, acceptsRanges, body } = await serviceFor(server.url).download(bag, {
      range: { start: 4 },
    })
    expect({ start, acceptsRanges }).toEqual({ start: 0, acceptsRanges: false })
    expect(await bytesOf(body)).toEqual(content)
  })

  it('is the whole when the range is beyond the end', async () => {
    const server = await ranged()
    const { start, totalLength, body } = await serviceFor(server.url).download(bag, {
      range: { start: 50 },
    })
    expect({ start, totalLength }).toEqual({ start: 0, totalLength: 10 })
    expect(await bytesOf(body)).toEqual(content)
  })

  it.each([
    ['bytes 3-9/10', { start: 4 }],
    ['bytes 4-7/10', { start: 4 }],
    ['bytes 4-9/10', { start: 4, end: 6 }],
    ['bytes 4-9/10', undefined],
    ['nonsense', { start: 4 }],
  ])('with Content-Range %j for %j is a bad answer', async (header, range) => {
    const server = await scripted((_request, response) =>
      response.writeHead(206, { 'content-range': header }).end('456789'),
    )
    const options = range === undefined ? {} : { range }
    const error = await failureOf(serviceFor(server.url).download(bag, options))
    expect(error.code).toBe('bad-answer')
  })

  it.each([{ start: -1 }, { start: 0.5 }, { start: 5, end: 5 }])(
    'of the range %j is refused',
    async (range) => {
      const server = await ranged()
      expect((await failureOf(serviceFor(server.url).download(bag, { range }))).code).toBe(
        'invalid',
      )
      expect(server.received).toEqual([])
    },
  )

  it('of a bag that the service has not is gone', async () => {
    const server = await scripted((_request, response) => {
      json(response, { detail: 'Bag not found' }, 404)
    })
    const error = await failureOf(serviceFor(server.url).download(bag))
    expect(error).toMatchObject({ code: 'gone', facts: { status: 404 } })
  })

  it.each([
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotliCompressSync],
  ])('that comes as %s is decoded, its length unknown', async (encoding, compress) => {
    const packed = compress(content)
    const server = await scripted((_request, response) =>
      response
        .writeHead(200, { 'content-encoding': encoding, 'content-length': packed.length })
        .end(packed),
    )
    const { totalLength, body } = await serviceFor(server.url).download(bag)
    expect(totalLength).toBeUndefined()
    expect(await bytesOf(body)).toEqual(content)
  })

  it.each([
    ['whole', undefined],
    ['in part', { start: 3 }],
  ])(
    'that is as long as the content, and called compressed, is taken as it is: %s',
    async (_what, range) => {
      const stored = gzipSync(content)
      const { start = 0 } = range ?? {}
      const server = await scripted((_request, response) =>
        response
          .writeHead(start === 0 ? 200 : 206, {
            'content-encoding': 'gzip',
            'content-length': stored.length - start,
            'content-range': `bytes ${start}-${stored.length - 1}/${stored.length}`,
          })
          .end(stored.subarray(start)),
      )
      const download = await serviceFor(server.url).download(bag, {
        isLength: (length) => length === stored.length,
        ...(range === undefined ? {} : { range }),
      })
      expect(download).toMatchObject({ start, totalLength: stored.length, isDecoded: false })
      expect(await bytesOf(download.body)).toEqual(stored.subarray(start))
    },
  )

  it('in an encoding that nobody knows is refused', async () => {
    const server = await scripted((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'zstd' }).end('x'),
    )
    expect((await failureOf(serviceFor(server.url).download(bag))).code).toBe('bad-answer')
  })

  it.each([
    ['with a length', { 'content-length': 1000 }],
    ['in chunks', {}],
    ['in chunks on a connection for one answer', { connection: 'close' }],
    ['compressed', { 'content-encoding': 'gzip' }],
    ['of a range without length', { 'content-range': 'bytes 0-999/1000', connection: 'close' }],
  ])('that is cut, %s, fails as unavailable', async (_how, headers) => {
    const isRange = 'content-range' in headers
    const server = await scripted((_request, response) => {
      response.useChunkedEncodingByDefault = !isRange
      response.writeHead(isRange ? 206 : 200, headers)
      const start =
        'content-encoding' in headers ? gzipSync(Buffer.alloc(9999)).subarray(0, 20) : 'part'
      response.write(start, () => response.socket?.end())
    })
    const range = isRange ? { range: { start: 0, end: 1000 } } : {}
    const { body } = await serviceFor(server.url).download(bag, range)
    expect((await failureOf(bytesOf(body))).code).toBe('unavailable')
  })

  it('whose end is reported by nobody but the length in a range is not taken for whole', async () => {
    const server = await scripted((_request, response) =>
      response.writeHead(206, { 'content-range': 'bytes 0-9/10' }).end('01234'),
    )
    const { body } = await serviceFor(server.url).download(bag, { range: { start: 0, end: 10 } })
    expect((await failureOf(bytesOf(body))).code).toBe('unavailable')
  })

  it.each([{}, { 'content-encoding': 'gzip' }])(
    'that fails before anybody reads it does not end the process (%j)',
    async (encoding) => {
      const server = await scripted((_request, response) => {
        response.writeHead(200, { 'content-length': 1000, ...encoding })
        response.write(gzipSync(content).subarray(0, 12), () => response.socket?.destroy())
      })
      const { body } = await serviceFor(server.url).download(bag)
      await expect.poll(() => body.errored).not.toBeNull()
      expect((await failureOf(bytesOf(body))).code).toBe('unavailable')
    },
  )

  it('that is destroyed frees its connection and its slot', async () => {
    const closed: Promise<unknown>[] = []
    const { url } = await listening((_request, response) => {
      closed.push(new Promise((resolve) => response.once('close', resolve)))
      response.writeHead(200)
      const pump = (): void => {
        while (response.write(Buffer.alloc(65_536)));
      }
      response.on('drain', pump)
      pump()
    })
    const service = serviceFor(url, { maxDownloads: 1 })
    for (let n = 0; n < 3; n += 1) (await service.download(bag)).body.destroy()
    await Promise.all(closed)
    expect(closed).toHaveLength(3)
  })

  it('holds its slot until its body ends', async () => {
    const server = await ranged()
    const service = serviceFor(server.url, { maxDownloads: 1 })
    const first = await service.download(bag)
    const second = service.download(bag)
    await sleep(20)
    expect(server.received).toHaveLength(1)
    await bytesOf(first.body)
    expect(await bytesOf((await second).body)).toEqual(content)
  })

  it('keeps a connection alive for the next', async () => {
    const server = await ranged()
    let connections = 0
    server.server.on('connection', () => (connections += 1))
    const service = serviceFor(server.url)
    for (let n = 0; n < 5; n += 1) await bytesOf((await service.download(bag)).body)
    // A second one may open while the first is being handed back.
    expect(connections).toBeLessThanOrEqual(2)
  })
})

it('lets everything else have its turn while a fast download comes in', async () => {
  const large = Buffer.alloc(32 * 2 ** 20)
  const server = await scripted((_request, response) => response.end(large))
  const { body } = await serviceFor(server.url).download(bag)
  let received = 0
  body.on('data', (chunk: Buffer) => {
    received += chunk.length
  })
  const inATurn: number[] = []
  while (!body.readableEnded) {
    const before = received
    await nextTurn()
    inATurn.push(received - before)
  }
  expect(received).toBe(large.length)
  // 512 KiB, and the piece that was under way.
  expect(Math.max(...inATurn)).toBeLessThanOrEqual(640 * 1024)
})
