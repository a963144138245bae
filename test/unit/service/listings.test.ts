import type http from 'node:http'
import { gzipSync } from 'node:zlib'
import { describe, expect, it, onTestFinished } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import type { StorageService } from '../../../src/service/storage-service.ts'
import { failureOf, fileToUpload, json, recordingLog, scripted, serviceFor } from './harness.ts'

const wire = (number: number): object => ({
  filename: `file ${number}.txt`,
  size: number,
  uploaded_at: 1_700_000_000 + number,
  description: '',
  bag_id: `bag ${number}`,
})
const many = (count: number): object[] => Array.from({ length: count }, (_, at) => wire(at))

/** Bodies of `files_list` in turn; the last one again and again. */
async function listingOf(...bodies: readonly (string | Buffer)[]): Promise<StorageService> {
  const server = await scripted((_request, response, turn) => {
    response.end(bodies[Math.min(turn, bodies.length - 1)])
  })
  return serviceFor(server.url)
}

describe('a listing', () => {
  it('that says the same again has the very same records', async () => {
    const body = JSON.stringify(many(5_000))
    const service = await listingOf(body, body, '[]', body)
    const first = await service.listFiles()
    expect(first).toHaveLength(5_000)
    expect(await service.listFiles()).toBe(first)
    expect(await service.listFiles()).toEqual([])
    expect(await service.listFiles()).toEqual(first)
  })

  it('that says something else here and there is read anew only there', async () => {
    const before = many(5_000)
    const after = [wire(-1), ...before.slice(0, 2_000), ...before.slice(2_001)]
    const service = await listingOf(JSON.stringify(before), JSON.stringify(after))
    const first = new Set(await service.listFiles())
    const second = await service.listFiles()
    expect(second.map(({ name }) => name)).toEqual(
      after.map((one) => (one as { filename: string }).filename),
    )
    expect(second.filter((record) => first.has(record)).length).toBeGreaterThan(3_000)
  })

  it('that cannot be read leaves the one before', async () => {
    const body = JSON.stringify(many(5_000))
    const service = await listingOf(body, `${body.slice(0, -1)},]`, body)
    const first = await service.listFiles()
    expect((await failureOf(service.listFiles())).code).toBe('bad-answer')
    expect(await service.listFiles()).toBe(first)
  })

  it.each([
    ['', 'empty'],
    [' \n', 'not JSON'],
    ['{"detail":[]}', 'no list'],
    ['"[]"', 'no list'],
    ['<html>[]</html>', 'a web page'],
    ['[1,2', 'not JSON'],
    ['[] []', 'not JSON'],
    ['[{]}', 'not JSON'],
    ['x'.repeat(2 * 1024 * 1024), 'not JSON'],
  ])('is no list when it is %j', async (body, words) => {
    const error = await failureOf((await listingOf(body)).listFiles())
    expect(error).toMatchObject({ code: 'bad-answer' })
    expect(error.message).toContain(words)
  })

  it('may have blanks before it, and a record for which no room would be', async () => {
    const record = { ...wire(1), description: 'x'.repeat(2 * 1024 * 1024) }
    const service = await listingOf(` \n\t${JSON.stringify([record, wire(2)])} \n`)
    expect(await service.listFiles()).toMatchObject([{ bagId: 'bag 2' }])
  })

  it('names some of the records that cannot be used, and how many they are', async () => {
    const log = recordingLog()
    const server = await scripted((_request, response) => {
      json(response, [
        ...Array.from({ length: 3_000 }, () => ({ filename: 'lost' })),
        'odd',
        wire(1),
      ])
    })
    const service = serviceFor(server.url, {}, log)
    expect(await service.listFiles()).toHaveLength(1)
    expect(log.lines).toHaveLength(21)
    expect(log.lines[0]?.fields).toMatchObject({ index: 0, name: 'lost' })
    expect(log.lines.at(-1)?.fields).toEqual({ more: 2_981 })
    await service.listFiles()
    expect(log.lines).toHaveLength(21)
  })
})

describe('a listing that would fill the memory', () => {
  const gzipped =
    (body: Buffer) =>
    (_request: unknown, response: http.ServerResponse): void => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(body)
    }

  it('is refused when it is compressed as no listing can be', async () => {
    const text = `[${' '.repeat(40 * 1024 * 1024)}]`
    const server = await scripted(gzipped(gzipSync(text)))
    const error = await failureOf(serviceFor(server.url).listFiles())
    expect(error).toMatchObject({ code: 'bad-answer' })
    expect(error.message).toContain('compressed')
  })

  it('is refused when it has more records than any account', async () => {
    const server = await scripted(gzipped(gzipSync(`[${'0,'.repeat(2_000_000)}0]`)))
    const error = await failureOf(serviceFor(server.url).listFiles())
    expect(error).toMatchObject({ code: 'bad-answer' })
    expect(error.message).toContain('2000000 records')
  })

  it('is taken when it is an honest one, compressed as well as can be', async () => {
    const records = many(150_000)
    const server = await scripted(gzipped(gzipSync(JSON.stringify(records), { level: 9 })))
    expect(await serviceFor(server.url).listFiles()).toHaveLength(150_000)
  })
})

describe('an answer that drips', () => {
  /** A byte every few milliseconds: each is in time. */
  async function dripping(settings: object): Promise<StorageService> {
    const timers: NodeJS.Timeout[] = []
    const server = await scripted((_request, response) => {
      response.writeHead(200).write(' ')
      timers.push(setInterval(() => response.write(' '), 20))
    })
    onTestFinished(() => {
      for (const timer of timers) clearInterval(timer)
    })
    return serviceFor(server.url, { ...settings, retries: 0 })
  }

  it('ends a listing as timed-out', async () => {
    const service = await dripping({ stallTimeoutMs: 400 })
    expect((await failureOf(service.listFiles())).code).toBe('timed-out')
  })

  it('ends an upload, an import, a delete and the account, and the change may have been made', async () => {
    const service = await dripping({ metadataTimeoutMs: 400 })
    const calls = [
      service.uploadFile(await fileToUpload('hello')),
      service.uploadFolder(await fileToUpload('hello')),
      service.addById(toBagId('b1')),
      service.deleteBag(toBagId('b1')),
    ]
    for (const error of await Promise.all(calls.map(failureOf))) {
      expect(error).toMatchObject({ code: 'timed-out', facts: { answerLost: true } })
    }
    expect((await failureOf(service.getAccount())).code).toBe('timed-out')
  })
})
