import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import {
  startFaultProxy,
  type Fault,
  type FaultProxy,
  type FaultRule,
} from '../../support/fault-proxy.ts'
import {
  bytesOf,
  failureOf,
  fileToUpload,
  json,
  scripted,
  serviceFor,
  type TestServer,
} from './harness.ts'

const bag = toBagId('b1')
const content = Buffer.from('0123456789'.repeat(10_000))

/** A service that knows ranges, behind a proxy. */
async function proxied(...rules: FaultRule[]): Promise<{ target: TestServer; proxy: FaultProxy }> {
  const target = await scripted(({ method, path, headers }, response) => {
    if (method === 'POST') json(response, { bag_id: 'new' })
    else if (method === 'DELETE') json(response, { success: true })
    else if (path === '/api/user/files_list') json(response, [])
    else {
      const start = Number(/^bytes=(\d+)-$/.exec(headers.range ?? '')?.[1] ?? -1)
      const body = content.subarray(Math.max(0, start))
      response.writeHead(start < 0 ? 200 : 206, {
        'accept-ranges': 'bytes',
        'content-length': body.length,
        ...(start < 0
          ? {}
          : { 'content-range': `bytes ${start}-${content.length - 1}/${content.length}` }),
      })
      response.end(body)
    }
  })
  const proxy = await startFaultProxy(target.url, rules)
  onTestFinished(() => proxy.close())
  return { target, proxy }
}

const download: FaultRule['match'] = { path: /download/ }
const once = (fault: Fault, match: FaultRule['match'] = {}): FaultRule => ({
  match,
  times: 1,
  fault,
})

describe('through the proxy', () => {
  it('all arrives when nothing is wrong', async () => {
    const { proxy, target } = await proxied()
    const service = serviceFor(proxy.url)
    const { body, ...head } = await service.download(bag)
    expect(head).toMatchObject({ totalLength: content.length, acceptsRanges: true })
    expect((await bytesOf(body)).equals(content)).toBe(true)
    const source = await fileToUpload(Buffer.alloc(3_000_000, 7))
    expect(await service.uploadFile(source)).toBe('new')
    const sent = target.received[1]?.body.length
    expect(proxy.requests.map(({ method, bodyBytes }) => [method, bodyBytes])).toEqual([
      ['GET', 0],
      ['POST', sent],
    ])
  })

  it('a cut answer is cut after so many bytes, and a repeat by range completes it', async () => {
    const { proxy } = await proxied(once({ cutResponseAfter: 70_000 }, download))
    const service = serviceFor(proxy.url)
    const { body } = await service.download(bag)
    const parts: Buffer[] = []
    const failure = await failureOf(
      (async () => {
        for await (const part of body as AsyncIterable<Buffer>) parts.push(part)
      })(),
    )
    expect(failure.code).toBe('unavailable')
    expect(Buffer.concat(parts).equals(content.subarray(0, 70_000))).toBe(true)
    const rest = await service.download(bag, { range: { start: 70_000 } })
    expect((await bytesOf(rest.body)).equals(content.subarray(70_000))).toBe(true)
  })

  it('a stalled answer times out after so many bytes', async () => {
    const { proxy } = await proxied(once({ stallResponseAfter: 1000 }, download))
    const { body } = await serviceFor(proxy.url, { stallTimeoutMs: 80 }).download(bag)
    let length = 0
    body.on('data', (part: Buffer) => (length += part.length))
    await expect.poll(() => body.errored).toMatchObject({ code: 'timed-out' })
    expect(length).toBe(1000)
  })

  it.each([50, -50])(
    'a Content-Length that is %i off is never taken for whole',
    async (wrongLength) => {
      const { proxy } = await proxied(once({ wrongLength }, download))
      const { body, totalLength } = await serviceFor(proxy.url).download(bag)
      expect(totalLength).toBe(content.length + wrongLength)
      if (wrongLength > 0) expect((await failureOf(bytesOf(body))).code).toBe('unavailable')
      // A length that is too small hides the rest: only who knows the content can tell.
      else expect(await bytesOf(body)).toHaveLength(content.length + wrongLength)
    },
  )

  it('ranges and lengths can be hidden', async () => {
    const { proxy } = await proxied({ fault: { noRanges: true, noLength: true } })
    const { start, totalLength, acceptsRanges, body } = await serviceFor(proxy.url).download(bag, {
      range: { start: 5 },
    })
    expect({ start, totalLength, acceptsRanges }).toEqual({
      start: 0,
      totalLength: undefined,
      acceptsRanges: false,
    })
    expect((await bytesOf(body)).equals(content)).toBe(true)
  })

  it('a lost answer leaves the upload done and in doubt', async () => {
    const { proxy, target } = await proxied(once({ loseAnswer: true }))
    const error = await failureOf(serviceFor(proxy.url).uploadFile(await fileToUpload('hello')))
    expect(error).toMatchObject({ code: 'unavailable', facts: { answerLost: true } })
    expect(target.received).toHaveLength(1)
  })

  it('a delete that is made again tells that its first request may still arrive', async () => {
    const { proxy, target } = await proxied(once({ loseAnswer: true }))
    const onAnswerLost = vi.fn()
    await serviceFor(proxy.url).deleteBag(bag, { onAnswerLost })
    expect(onAnswerLost).toHaveBeenCalledTimes(1)
    expect(target.received).toHaveLength(2)
    await serviceFor(proxy.url).deleteBag(bag, { onAnswerLost })
    expect(onAnswerLost).toHaveBeenCalledTimes(1)
  })

  it('a cut upload is made again', async () => {
    const { proxy, target } = await proxied(once({ cutRequestAfter: 5_000_000 }))
    const source = await fileToUpload(Buffer.alloc(32 * 1024 * 1024))
    expect(await serviceFor(proxy.url).uploadFile(source)).toBe('new')
    expect(proxy.requests).toHaveLength(2)
    expect(target.received).toHaveLength(1)
  })

  it('a web page, an answer of its own, silence and latency do what they say', async () => {
    const { proxy, target } = await proxied(
      once({ html: true }),
      once({ answer: { status: 403, body: '{"detail":"mine"}' } }),
      once({ silence: true }),
      once({ latencyMs: 150 }),
    )
    const service = serviceFor(proxy.url, { retries: 0, metadataTimeoutMs: 80 })
    const codes: string[] = []
    for (let n = 0; n < 4; n += 1) codes.push((await failureOf(service.listFiles())).code)
    expect(codes).toEqual(['bad-answer', 'forbidden', 'timed-out', 'timed-out'])
    expect(await service.listFiles()).toEqual([])
    expect(target.received).toHaveLength(1)
  })

  it('rules skip, count, come and go, and chance can be repeated', async () => {
    const { proxy } = await proxied({ skip: 1, times: 1, fault: { html: true } })
    const service = serviceFor(proxy.url, { retries: 0 })
    const outcome = (): Promise<string> =>
      service.listFiles().then(
        () => 'ok',
        (error: unknown) => (error as { code: string }).code,
      )
    const first = [await outcome(), await outcome(), await outcome()]
    expect(first).toEqual(['ok', 'bad-answer', 'ok'])
    const remove = proxy.add({ fault: { answer: { status: 400 } } })
    expect(await outcome()).toBe('bad-request')
    remove()
    const draw = async (): Promise<string> => {
      proxy.clear()
      proxy.add({ probability: 0.5, seed: 7, fault: { answer: { status: 400 } } })
      const outcomes: string[] = []
      for (let n = 0; n < 12; n += 1) outcomes.push(await outcome())
      return outcomes.join()
    }
    const drawn = await draw()
    expect(await draw()).toBe(drawn)
    expect(new Set(drawn.split(','))).toEqual(new Set(['ok', 'bad-request']))
  })

  it('down refuses, and up answers on the same port', async () => {
    const { proxy } = await proxied()
    const service = serviceFor(proxy.url, { retries: 0 })
    await service.listFiles()
    await proxy.down()
    expect((await failureOf(service.listFiles())).code).toBe('unavailable')
    await proxy.up()
    expect(await service.listFiles()).toEqual([])
  })

  it('a service that comes back is found by the repeats', async () => {
    const { proxy } = await proxied()
    const service = serviceFor(proxy.url, { retries: 20, retryBaseMs: 20, retryMaxMs: 20 })
    await proxy.down()
    const source = await fileToUpload('hello')
    const upload = service.uploadFile(source)
    await proxy.up()
    expect(await upload).toBe('new')
  })
})
