import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { parse } from 'content-disposition'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { startFixture } from './fixture.ts'

describe('a download', () => {
  it('tells what it is', async () => {
    const service = await startFixture()
    const id = await service.put('a b.txt', 'hello')
    const answer = await service.ask(`/api/bag/download/${id}`)
    expect(answer.status).toBe(200)
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': 'application/octet-stream',
      'content-disposition': 'attachment; filename="a b.txt"',
      'content-length': '5',
      'accept-ranges': 'bytes',
      etag: `"${id}"`,
    })
  })

  it.each(['naïve 日本語 🙂.txt', 'semi;colon "quoted".txt', 'tab\there', '50%20.txt', 'a/b'])(
    'carries the name %s',
    async (name) => {
      const service = await startFixture()
      const id = await service.put(name.replaceAll('"', '\\"'), 'x')
      const answer = await service.ask(`/api/bag/download/${id}`)
      const header = answer.headers.get('content-disposition') ?? ''
      expect(parse(header).parameters['filename']).toBe(name)
    },
  )

  it('of any range is that slice of the content', async () => {
    const service = await startFixture()
    const content = Buffer.from(Array.from({ length: 3000 }, (_, index) => index % 251))
    const id = await service.put('a', content)
    const bound = fc.nat(3500)
    await fc.assert(
      fc.asyncProperty(bound, fc.option(bound), async (start, last) => {
        const range = `bytes=${start}-${last ?? ''}`
        const answer = await service.ask(`/api/bag/download/${id}`, { headers: { range } })
        const body = Buffer.from(await answer.arrayBuffer())
        if (last !== null && last < start) {
          expect([answer.status, body.length]).toEqual([200, 3000])
        } else if (start >= 3000) {
          expect(answer.status).toBe(416)
          expect(answer.headers.get('content-range')).toBe('bytes */3000')
        } else {
          const end = Math.min(last === null ? 3000 : last + 1, 3000)
          expect(answer.status).toBe(206)
          expect(answer.headers.get('content-range')).toBe(`bytes ${start}-${end - 1}/3000`)
          expect(answer.headers.get('content-length')).toBe(String(end - start))
          expect(body.equals(content.subarray(start, end))).toBe(true)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('of a suffix, of no range that it knows, and of none that there is', async () => {
    const service = await startFixture()
    const id = await service.put('a', 'hello')
    const get = async (range: string): Promise<unknown[]> => {
      const answer = await service.ask(`/api/bag/download/${id}`, { headers: { range } })
      return [answer.status, answer.headers.get('content-type'), await answer.text()]
    }
    expect(await get('bytes=-2')).toEqual([206, 'application/octet-stream', 'lo'])
    expect(await get('bytes=0-1,3-4')).toEqual([200, 'application/octet-stream', 'hello'])
    expect(await get('pages=1')).toEqual([200, 'application/octet-stream', 'hello'])
    expect(await get('bytes=5-')).toEqual([
      416,
      'application/json',
      '{"detail":[{"loc":["header","Range"],"msg":"The bag has 5 bytes.","type":"range_not_satisfiable"}]}',
    ])
  })

  it('resumes only what If-Range says it is', async () => {
    const service = await startFixture()
    const id = await service.put('a', 'hello')
    const resume = async (etag: string): Promise<string> => {
      const headers = { range: 'bytes=3-', 'if-range': etag }
      return (await service.ask(`/api/bag/download/${id}`, { headers })).text()
    }
    expect(await resume(`"${id}"`)).toBe('lo')
    expect(await resume('"another"')).toBe('hello')
  })

  it('goes on when its bag is deleted meanwhile', async () => {
    const service = await startFixture()
    const content = Buffer.alloc(30e6, 'x')
    const id = await service.put('a', content)
    const answer = await service.ask(`/api/bag/download/${id}`)
    const body = new URLSearchParams({ bag_id: id })
    expect((await service.ask('/api/bag', { method: 'DELETE', body })).status).toBe(200)
    expect(Buffer.from(await answer.arrayBuffer()).equals(content)).toBe(true)
  })

  it('is 404 when a person took the content away', async () => {
    const service = await startFixture()
    const id = await service.put('a', 'hello')
    await rm(join(service.dataDir, 'bags', id))
    expect((await service.ask(`/api/bag/download/${id}`)).status).toBe(404)
    await service.restart()
    expect(await service.list()).toHaveLength(1)
    await service.put('a', 'hello')
    expect(await (await service.ask(`/api/bag/download/${id}`)).text()).toBe('hello')
  })
})
