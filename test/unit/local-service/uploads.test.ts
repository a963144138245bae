import { once } from 'node:events'
import { stat, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { filesUnder, multipartBody, startFixture, TOKEN } from './fixture.ts'
import type { Fixture } from './fixture.ts'

const EMPTY_ZIP = Buffer.concat([Buffer.from('504b0506', 'hex'), Buffer.alloc(18)])

async function storedFiles(service: Fixture): Promise<string[]> {
  return filesUnder(service.dataDir)
}

describe('an uploaded file', () => {
  it.each([
    'plain.txt',
    'naïve Ünïcödé 日本語 🙂.txt',
    'folder/inner.txt',
    '../../up.txt',
    "it's; 100% = true, yes*.txt",
    'back\\slash.txt',
    `${'é'.repeat(150)}.txt`,
  ])('keeps the name %s', async (name) => {
    const service = await startFixture()
    await service.put(name, 'x')
    expect(await service.list()).toMatchObject([{ filename: name }])
  })

  it('may have an escaped quote in its name', async () => {
    const service = await startFixture()
    await service.put('a \\"b\\" \\\\ c', 'x')
    expect(await service.list()).toMatchObject([{ filename: 'a "b" \\ c' }])
  })

  it.each([
    `form-data; name="file"; filename*=UTF-8''na%C3%AFve%20%E6%97%A5.txt`,
    `form-data; name=file; filename*=utf-8''na%C3%AFve%20%E6%97%A5.txt`,
  ])('takes its name from %s', async (disposition) => {
    const service = await startFixture()
    const answer = await service.send('/api/files/upload', [
      { name: 'file', disposition, content: 'x' },
    ])
    expect(answer.status).toBe(200)
    expect(await service.list()).toMatchObject([{ filename: 'naïve 日.txt' }])
  })

  it('may be empty, and its description too', async () => {
    const service = await startFixture()
    const id = await service.put('empty', '')
    expect(await service.list()).toMatchObject([{ size: 0, description: '' }])
    const answer = await service.ask(`/api/bag/download/${id}`)
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-length')).toBe('0')
    expect(await answer.text()).toBe('')
  })

  it('needs no description and takes it after the file', async () => {
    const service = await startFixture()
    const file = { name: 'file', filename: 'a', content: 'x' }
    expect((await service.send('/api/files/upload', [file])).status).toBe(200)
    const words = { name: 'description', content: 'späť' }
    expect((await service.send('/api/files/upload', [file, words])).status).toBe(200)
    const descriptions = (await service.list()).map((record) => record['description'])
    expect(descriptions).toEqual(['', 'späť'])
  })

  it('has an id of its own by content, name, description and kind', async () => {
    const service = await startFixture()
    const zip = EMPTY_ZIP
    const ids = [
      await service.put('a', zip),
      await service.put('b', zip),
      await service.put('a', zip, 'words'),
      await service.put('a', Buffer.concat([zip, zip])),
    ]
    const folder = [{ name: 'file', filename: 'a.zip', content: zip }]
    const answer = await service.send('/api/folders/upload', folder)
    ids.push(((await answer.json()) as { bag_id: string }).bag_id)
    expect(new Set(ids).size).toBe(5)
  })

  it('is one record and counted once when it is uploaded twice', async () => {
    const service = await startFixture({ capacityBytes: 8 })
    const first = await service.put('a', 'hello')
    const [before] = await service.list()
    expect(await service.put('a', 'hello')).toBe(first)
    const after = await service.list()
    expect(after).toHaveLength(1)
    expect(after[0]?.['uploaded_at']).toBeGreaterThan(before?.['uploaded_at'] as number)
    expect(await service.json('/api/user')).toMatchObject({ space_left: 3 })
  })

  it('comes back byte for byte', async () => {
    const service = await startFixture()
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 5000 }), async (bytes) => {
        const content = Buffer.from(bytes)
        const id = await service.put('any', content)
        const answer = await service.ask(`/api/bag/download/${id}`)
        expect(Buffer.from(await answer.arrayBuffer()).equals(content)).toBe(true)
      }),
      { numRuns: 30 },
    )
  })

  it('is private on disk', async () => {
    const service = await startFixture()
    await service.put('a', 'x')
    const paths = await filesUnder(service.dataDir)
    expect(paths).toHaveLength(2)
    for (const path of paths) {
      expect((await stat(join(service.dataDir, path))).mode & 0o777).toBe(0o600)
    }
    for (const folder of ['bags', 'accounts', 'incoming']) {
      expect((await stat(join(service.dataDir, folder))).mode & 0o777).toBe(0o700)
    }
  })
})

describe('an upload that is refused', () => {
  const file = { name: 'file', filename: 'a', content: 'x' }

  it.each([
    [
      'has no file name',
      [{ name: 'file', disposition: 'form-data; name="file"; filename=""', content: 'x' }],
      'file',
    ],
    ['has a text for its file', [{ name: 'file', content: 'x' }], 'file'],
    ['has two files', [file, file], 'file'],
    ['has a file for its description', [file, { ...file, name: 'description' }], 'description'],
    [
      'has a huge description',
      [file, { name: 'description', content: 'x'.repeat(2e6) }],
      'description',
    ],
  ])('%s, and nothing is left', async (_what, parts, field) => {
    const service = await startFixture()
    const answer = await service.send('/api/files/upload', parts)
    expect(answer.status).toBe(422)
    expect(await answer.json()).toMatchObject({
      detail: [{ loc: ['body', field], type: 'validation_error' }],
    })
    expect(await storedFiles(service)).toEqual([])
    expect(await service.list()).toEqual([])
  })

  it('is not whole, although the request is', async () => {
    const service = await startFixture()
    const body = new Uint8Array(multipartBody([file], true))
    const headers = { 'content-type': 'multipart/form-data; boundary=a-boundary-7f3c' }
    const answer = await service.ask('/api/files/upload', { method: 'POST', headers, body })
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ detail: [{ type: 'malformed_request' }] })
    expect(await storedFiles(service)).toEqual([])
  })

  it('does not fit: 400, and nothing is stored', async () => {
    const service = await startFixture({ capacityBytes: 10 })
    await service.put('first', 'hello')
    const stored = await storedFiles(service)
    const parts = [{ name: 'file', filename: 'second', content: '123456' }]
    const answer = await service.send('/api/files/upload', parts)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toEqual({
      detail: [
        { loc: ['body', 'file'], msg: 'Not enough space: 5 bytes are left.', type: 'no_space' },
      ],
    })
    expect(await storedFiles(service)).toEqual(stored)
    await service.put('third', '12345')
    expect(await service.json('/api/user')).toMatchObject({ space_left: 0 })
  })

  it('does not fit: the answer tells what is left, also when it has the name of something larger', async () => {
    const service = await startFixture({ capacityBytes: 10 })
    await service.put('same', 'hello!!')
    const parts = [{ name: 'file', filename: 'same', content: '12345678' }]
    const answer = await service.send('/api/files/upload', parts)
    expect(answer.status).toBe(400)
    expect(await answer.text()).toContain('Not enough space: 3 bytes are left.')
  })

  it('does not fit: the answer comes long before the end of the upload', async () => {
    const service = await startFixture({ capacityBytes: 1000 })
    const upload = service.openUpload({ 'content-length': '1000000000' })
    const answered = once(upload, 'response') as Promise<[IncomingMessage]>
    upload.write(
      multipartBody([{ name: 'file', filename: 'big', content: Buffer.alloc(100_000) }], true),
    )
    const [answer] = await answered
    expect(answer.statusCode).toBe(400)
    expect(await storedFiles(service)).toEqual([])
    upload.on('error', () => undefined).destroy()
  })

  it('does not fit: a client that sends everything first gets the answer all the same', async () => {
    const service = await startFixture({ capacityBytes: 1000 })
    const parts = [{ name: 'file', filename: 'big', content: Buffer.alloc(20e6) }]
    expect((await service.send('/api/files/upload', parts)).status).toBe(400)
  })

  it('shares the last space with another one: only one of them fits', async () => {
    const service = await startFixture({ capacityBytes: 10 })
    const answers = await Promise.all(
      ['a', 'b', 'c'].map((filename) =>
        service.send('/api/files/upload', [{ name: 'file', filename, content: '123456' }]),
      ),
    )
    expect(answers.map((answer) => answer.status).sort()).toEqual([200, 400, 400])
    expect(await service.list()).toHaveLength(1)
  })
})

describe('an upload that is cut half way', () => {
  it('leaves nothing', async () => {
    const service = await startFixture()
    const upload = service.openUpload({ 'content-length': '1000000' })
    upload.on('error', () => undefined)
    upload.write(
      multipartBody([{ name: 'file', filename: 'a', content: Buffer.alloc(100_000) }], true),
    )
    await expect.poll(() => storedFiles(service)).toHaveLength(1)
    upload.destroy()
    await expect.poll(() => storedFiles(service)).toEqual([])
    expect(await service.list()).toEqual([])
  })

  it('by the end of the service leaves nothing and does not hold it up', async () => {
    const service = await startFixture()
    const upload = service.openUpload({ 'content-length': '1000000' })
    upload.on('error', () => undefined)
    upload.write(
      multipartBody([{ name: 'file', filename: 'a', content: Buffer.alloc(100_000) }], true),
    )
    await expect.poll(() => storedFiles(service)).toHaveLength(1)
    await service.close()
    expect(await filesUnder(service.dataDir)).toEqual([])
  })

  it('by the death of the process leaves nothing after the next start', async () => {
    const service = await startFixture()
    const id = await service.put('kept', 'hello')
    await service.close()
    await writeFile(join(service.dataDir, 'incoming', 'half'), 'hal')
    await writeFile(join(service.dataDir, 'bags', 'f'.repeat(64)), 'moved, but never recorded')
    await service.start()
    expect(await storedFiles(service)).toEqual([
      expect.stringMatching(`^accounts/[0-9a-f]+/${id}.json$`),
      `bags/${id}`,
    ])
  })
})

describe('an uploaded folder', () => {
  async function putFolder(
    service: Fixture,
    filename: string,
    content = EMPTY_ZIP,
  ): Promise<Response> {
    return service.send('/api/folders/upload', [{ name: 'file', filename, content }], TOKEN)
  }

  it.each([
    ['photos.zip', 'photos'],
    ['photos.zip.zip', 'photos.zip'],
    ['photos', 'photos'],
  ])('sent as %s is listed as %s', async (sent, listed) => {
    const service = await startFixture()
    expect((await putFolder(service, sent)).status).toBe(200)
    expect(await service.list()).toMatchObject([{ filename: listed, size: EMPTY_ZIP.length }])
    expect(service.events[0]?.name).toBe(sent)
  })

  it('comes back as a zip', async () => {
    const service = await startFixture()
    const { bag_id: id } = (await (await putFolder(service, 'été.zip')).json()) as {
      bag_id: string
    }
    const answer = await service.ask(`/api/bag/download/${id}`)
    expect(answer.headers.get('content-type')).toBe('application/zip')
    expect(answer.headers.get('content-disposition')).toContain(
      `filename*=UTF-8''%C3%A9t%C3%A9.zip`,
    )
    expect(Buffer.from(await answer.arrayBuffer()).equals(EMPTY_ZIP)).toBe(true)
  })

  it.each([
    ['photos.zip', Buffer.from('no zip at all')],
    ['photos.zip', Buffer.alloc(0)],
    ['.zip', EMPTY_ZIP],
  ])('sent as %s is refused when it is none', async (sent, content) => {
    const service = await startFixture()
    const answer = await putFolder(service, sent, content)
    expect(answer.status).toBe(422)
    expect(await answer.json()).toMatchObject({ detail: [{ loc: ['body', 'file'] }] })
    expect(await storedFiles(service)).toEqual([])
  })
})
