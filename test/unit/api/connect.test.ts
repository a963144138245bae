import { once } from 'node:events'
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { connect, DriveError, type Client, type UploadContent } from '../../../src/api/index.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { startLocalService, type LocalService } from '../../../src/local-service/server.ts'

const TOKEN = 'a-token-of-the-test'

let dir = ''
let service: LocalService
let client: Client

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-api-'))
  service = await startLocalService(
    { dataDir: join(dir, 'service'), tokens: [TOKEN] },
    { log: silentLogger },
  )
  client = connect({ url: service.url, token: TOKEN })
})

afterEach(async () => {
  await client.close()
  await service.close()
  rmSync(dir, { recursive: true })
})

/** Files that wait in the directory for temporary files to be uploaded. */
const spooled = (): readonly string[] =>
  readdirSync(tmpdir()).filter((name) => name.startsWith('bagfs-upload-'))

/** Files of uploads that this process has open, removed ones too. */
const openFiles = (): readonly string[] =>
  readdirSync('/proc/self/fd')
    .map(pathOf)
    .filter((path) => path.includes('bagfs-upload-'))

/** The directory itself was open while it was listed. */
function pathOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`)
  } catch {
    return ''
  }
}

async function* standStill(): AsyncGenerator<Uint8Array> {
  yield CONTENT
  await new Promise(() => undefined)
}

const CONTENT = Buffer.from('content of a file')

describe('an upload takes', () => {
  it.each<[string, () => UploadContent]>([
    ['bytes', () => CONTENT],
    ['no bytes', () => new Uint8Array()],
    ['a path', () => ({ path: join(dir, 'file') })],
    ['a stream', () => Readable.from([CONTENT.subarray(0, 5), CONTENT.subarray(5)])],
    ['a stream that is empty', () => Readable.from([])],
  ])('%s', async (what, make) => {
    writeFileSync(join(dir, 'file'), CONTENT)
    const before = spooled()
    const bagId = await client.uploadFile('name.txt', make(), { description: what })
    const { body, fileName } = await client.download(bagId)
    expect(await buffer(body)).toEqual(/no bytes|empty/.test(what) ? Buffer.alloc(0) : CONTENT)
    expect(fileName).toBe('name.txt')
    expect(await client.list()).toMatchObject([{ bagId, name: 'name.txt', description: what }])
    expect(spooled()).toEqual(before)
  })

  it('the zip of a folder', async () => {
    const zip = Buffer.from(`PK\x05\x06${'\0'.repeat(18)}`)
    const bagId = await client.uploadFolder('Folder', zip)
    expect(await buffer((await client.download(bagId)).body)).toEqual(zip)
  })

  it('no text, and says how text becomes bytes', async () => {
    const texts = [Readable.from(['text']), 'text', { path: 7 }]
    for (const text of texts) {
      const failed = client.uploadFile('a.txt', text as unknown as UploadContent)
      await expect(failed).rejects.toMatchObject({ code: 'invalid' })
    }
    expect(await client.list()).toEqual([])
  })

  it('nothing of a stream that fails, and rejects as the stream did', async () => {
    const before = spooled()
    const failing = Readable.from(
      (async function* () {
        yield await Promise.resolve(CONTENT)
        throw new Error('The cable is out.')
      })(),
    )
    await expect(client.uploadFile('a.txt', failing)).rejects.toThrow('The cable is out.')
    expect(await client.list()).toEqual([])
    expect(spooled()).toEqual(before)
  })

  it('no path that is not a file', async () => {
    const missing = client.uploadFile('a', { path: join(dir, 'missing') })
    await expect(missing).rejects.toMatchObject({ code: 'local-io' })
    await expect(client.uploadFile('a', { path: dir })).rejects.toMatchObject({ code: 'invalid' })
  })

  it('no file that another program writes over while it is sent', async () => {
    const path = join(dir, 'torn')
    writeFileSync(path, Buffer.alloc(8 * 1024 * 1024))
    const onProgress = (sent: number): void => {
      if (sent > 0) writeFileSync(path, CONTENT, { flag: 'r+' })
    }
    const torn = client.uploadFile('a.txt', { path }, { onProgress })
    await expect(torn).rejects.toMatchObject({ code: 'local-io' })
    expect(await client.list()).toEqual([])
  })

  const stalled: readonly [string, () => AsyncIterable<Uint8Array>][] = [
    [
      'an iterable',
      () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => undefined) }) }),
    ],
    ['a generator', standStill],
    ['a stream', () => Readable.from(standStill())],
    ['a stream of the web', () => new ReadableStream<Uint8Array>()],
  ]

  it.each(stalled)('nothing of %s that stands still once it is cancelled', async (_, make) => {
    const before = [spooled(), openFiles()]
    const signal = AbortSignal.timeout(50)
    const cancelled = client.uploadFile('a.txt', make(), { signal })
    await expect(cancelled).rejects.toMatchObject({
      ...{ code: 'interrupted', message: 'The call was cancelled.' },
    })
    expect([spooled(), openFiles()]).toEqual(before)
  })

  it.each(stalled)('nothing of %s that stands still once the client is closed', async (_, make) => {
    const before = [spooled(), openFiles()]
    const closed = client.uploadFolder('Folder', make())
    const told = expect(closed).rejects.toMatchObject({ code: 'interrupted' })
    await expect.poll(spooled).not.toEqual(before[0])
    await client.close()
    await told
    expect([spooled(), openFiles()]).toEqual(before)
    await expect(client.uploadFile('a', make())).rejects.toMatchObject({ code: 'interrupted' })
  })

  it('and lets go of a stream whose upload is cancelled', async () => {
    const stream = Readable.from(standStill())
    let isCancelled = false
    const ofTheWeb = new ReadableStream<Uint8Array>({
      cancel: () => {
        isCancelled = true
      },
    })
    for (const content of [stream, ofTheWeb]) {
      const signal = AbortSignal.timeout(20)
      const cancelled = client.uploadFile('a.txt', content, { signal })
      await expect(cancelled).rejects.toMatchObject({ code: 'interrupted' })
    }
    expect(stream.destroyed).toBe(true)
    await expect.poll(() => isCancelled).toBe(true)
  })

  it('no stream that was read before', async () => {
    const ended = Readable.from([CONTENT])
    await buffer(ended)
    const inPart = Readable.from([CONTENT, CONTENT])
    await once(inPart, 'readable')
    inPart.read()
    const destroyed = Readable.from([CONTENT]).destroy()
    const ofTheWeb = new Response(CONTENT).body ?? new ReadableStream()
    await new Response(ofTheWeb).text()
    const locked = new ReadableStream<Uint8Array>()
    locked.getReader()
    for (const stream of [ended, inPart, destroyed, ofTheWeb, locked]) {
      const refused = client.uploadFile('a.txt', stream)
      await expect(refused).rejects.toMatchObject({
        ...{ code: 'invalid', message: 'The stream was read before.' },
      })
    }
    expect(await client.list()).toEqual([])
  })

  it('a stream of the web, but no text of one', async () => {
    const texts = new ReadableStream({
      start: (controller) => {
        controller.enqueue('text')
        controller.close()
      },
    })
    const refused = client.uploadFile('a.txt', texts)
    await expect(refused).rejects.toMatchObject({ code: 'invalid' })
    const bagId = await client.uploadFile('a.txt', new Response(CONTENT).body ?? texts)
    expect(await buffer((await client.download(bagId)).body)).toEqual(CONTENT)
  })

  it('neither nothing, nor a name that is none', async () => {
    const nothing = null as unknown as UploadContent
    await expect(client.uploadFile('a', nothing)).rejects.toMatchObject({ code: 'invalid' })
    for (const content of [CONTENT, Readable.from([CONTENT])]) {
      const nameless = client.uploadFile(undefined as unknown as string, content)
      await expect(nameless).rejects.toMatchObject({ code: 'bad-name' })
    }
  })

  it('nothing once it is cancelled', async () => {
    const signal = AbortSignal.abort()
    const cancelled = client.uploadFile('a.txt', Readable.from([CONTENT]), { signal })
    await expect(cancelled).rejects.toMatchObject({ code: 'interrupted' })
    expect(await client.list()).toEqual([])
  })
})

describe('a client', () => {
  it('tells of the account, imports and deletes', async () => {
    const { spaceLeft, capacity } = await client.account()
    const bagId = await client.uploadFile('a.txt', CONTENT)
    expect((await client.account()).spaceLeft).toBe(spaceLeft - CONTENT.length)
    expect(spaceLeft).toBe(capacity)
    await client.addById(bagId)
    await client.delete(bagId)
    await client.delete(bagId)
    await expect(client.download(bagId)).rejects.toMatchObject({ code: 'gone' })
  })

  it('gives a part of a file', async () => {
    const bagId = await client.uploadFile('a.txt', CONTENT)
    const { start, totalLength, body } = await client.download(bagId, {
      range: { start: 8, end: 10 },
    })
    expect([start, totalLength]).toEqual([8, CONTENT.length])
    expect(await buffer(body)).toEqual(Buffer.from('of'))
  })

  it('fails by typed errors, which never hold the token', async () => {
    expect(() => connect({ url: 'ftp://a', token: TOKEN })).toThrow(DriveError)
    expect(() => connect({ url: service.url, token: 'two words' })).toThrow(/^(?!.*two words)/)
    const other = connect({ url: service.url, token: 'another-token' })
    const refused = await other.list().catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(DriveError)
    expect(refused).toMatchObject({ code: 'unauthorized' })
    expect(String(refused)).not.toContain('another-token')
    await other.close()
    await expect(client.download('')).rejects.toMatchObject({ code: 'usage' })
  })
})

it('docs/LIBRARY.md names each call of the client', () => {
  const source = readFileSync('src/api/connect.ts', 'utf8')
  const [, body = ''] = /export interface Client \{\n(.*?)\n\}/s.exec(source) ?? []
  const calls = Array.from(body.matchAll(/^ {2}(\w+)\(/gm), ([, name]) => name ?? '')
  expect(calls).toHaveLength(8)
  const told = readFileSync('docs/LIBRARY.md', 'utf8')
  expect(
    calls.filter((name) => !told.includes(`\`${name}\``) && !told.includes(`.${name}(`)),
  ).toEqual([])
})
