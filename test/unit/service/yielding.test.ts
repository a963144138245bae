import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { toBagId } from '../../../src/domain/ids.ts'
import { bytesOf, failureOf, scripted, serviceFor } from './harness.ts'

const bag = toBagId('b1')
/** Where a download that is fast makes its pauses: after the head, and after each piece behind it. */
const HEAD = 128 * 1024
const PIECE = 512 * 1024
/** So much of an answer waits for its reader. */
const BUFFERED = 256 * 1024

describe('a download that lets others have their turn', () => {
  it.each([HEAD - 1, HEAD, HEAD + 1, HEAD + PIECE, HEAD + PIECE + 1])(
    'is whole when it ends at a pause (%i bytes), with and without a length',
    async (length) => {
      const whole = Buffer.alloc(length, 'x')
      const server = await scripted(({ path }, response) => {
        if (path.endsWith('/known')) response.writeHead(200, { 'content-length': length })
        response.write(whole.subarray(0, length - 1))
        response.end(whole.subarray(length - 1))
      })
      const service = serviceFor(server.url)
      for (const id of ['known', 'unknown']) {
        const { body } = await service.download(toBagId(id))
        expect((await bytesOf(body)).equals(whole)).toBe(true)
      }
    },
  )

  it('gives the first bytes a head start over the rest', async () => {
    const server = await scripted((_request, response) => response.end(Buffer.alloc(2 * PIECE)))
    const { body } = await serviceFor(server.url).download(bag)
    let received = 0
    let headAtMs: number | undefined
    let restAtMs: number | undefined
    body.on('data', (chunk: Buffer) => {
      if (received >= HEAD) restAtMs ??= performance.now()
      received += chunk.length
      if (received >= HEAD) headAtMs ??= performance.now()
    })
    await once(body, 'end')
    // 5 ms; timers count whole ones.
    expect((restAtMs ?? 0) - (headAtMs ?? 0)).toBeGreaterThanOrEqual(4)
  })

  it('tells of a connection that is cut during the pause', async () => {
    const server = await scripted((_request, response) => {
      response.writeHead(200, { 'content-length': 2 * HEAD })
      response.write(Buffer.alloc(HEAD), () => response.destroy())
    })
    const { body } = await serviceFor(server.url).download(bag)
    expect(await failureOf(bytesOf(body))).toMatchObject({ code: 'unavailable' })
  })

  it('ends at its deadline when nothing comes after the pause', async () => {
    const server = await scripted((_request, response) => {
      response.writeHead(200, { 'content-length': 2 * HEAD })
      response.write(Buffer.alloc(HEAD))
    })
    const { body } = await serviceFor(server.url, { stallTimeoutMs: 300 }).download(bag)
    const startedAt = performance.now()
    expect(await failureOf(bytesOf(body))).toMatchObject({ code: 'timed-out' })
    expect(performance.now() - startedAt).toBeLessThan(20_000)
  })

  it('ends at its deadline when nothing comes after a slow reader has caught up', async () => {
    const server = await scripted((_request, response) => {
      response.writeHead(200, { 'content-length': 8 * PIECE })
      response.write(Buffer.alloc(4 * PIECE))
    })
    const { body } = await serviceFor(server.url, { stallTimeoutMs: 300 }).download(bag)
    await expect.poll(() => body.readableLength).toBeGreaterThanOrEqual(BUFFERED)
    expect(await failureOf(bytesOf(body))).toMatchObject({ code: 'timed-out' })
  })

  it('does not hurry a reader that takes longer than the deadline', async () => {
    const whole = Buffer.alloc(4 * PIECE, 'x')
    const server = await scripted((_request, response) => response.end(whole))
    const { body } = await serviceFor(server.url, { stallTimeoutMs: 200 }).download(bag)
    const chunks: Buffer[] = []
    for await (const chunk of body as AsyncIterable<Buffer>) {
      if (chunks.length % 8 === 0) await sleep(300)
      chunks.push(chunk)
    }
    expect(Buffer.concat(chunks).equals(whole)).toBe(true)
  })

  it('stops at once when it is given up during the pause', async () => {
    const gone: Promise<unknown>[] = []
    const server = await scripted((_request, response) => {
      gone.push(once(response, 'close'))
      response.writeHead(200, { 'content-length': 2 ** 30 })
      response.write(Buffer.alloc(HEAD))
    })
    const service = serviceFor(server.url)
    const stop = new AbortController()
    const aborted = await service.download(bag, { signal: stop.signal })
    await once(aborted.body, 'readable')
    stop.abort(new DriveError('interrupted', 'Enough.'))
    expect(await failureOf(bytesOf(aborted.body))).toMatchObject({ code: 'interrupted' })
    const left = await service.download(bag)
    await once(left.body, 'readable')
    left.body.destroy()
    await Promise.all(gone)
    expect(gone).toHaveLength(2)
  })
})
