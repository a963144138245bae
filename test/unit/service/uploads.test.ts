import { appendFile, open, readdir, readlink, stat, truncate, utimes } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import {
  detail,
  failureOf,
  fileToUpload,
  json,
  listening,
  scripted,
  serviceFor,
} from './harness.ts'

interface Form {
  readonly headers: string
  readonly description: string
  readonly content: string
}

/** Takes a form apart by its boundary; fails when its length is not the one announced. */
function formOf({
  headers,
  body,
}: {
  headers: NodeJS.Dict<string | string[]>
  body: Buffer
}): Form {
  expect(Number(headers['content-length'])).toBe(body.length)
  const boundary = /boundary=(.*)$/.exec(String(headers['content-type']))?.[1] ?? 'none'
  const parts = body.toString().split(`--${boundary}`)
  expect(parts).toHaveLength(4)
  expect(parts[3]).toBe('--\r\n')
  const [description, file] = parts.slice(1).map((part) => {
    const at = part.indexOf('\r\n\r\n')
    return { head: part.slice(2, at), content: part.slice(at + 4, -2) }
  })
  return {
    headers: file?.head ?? '',
    description: description?.content ?? '',
    content: file?.content ?? '',
  }
}

const answerWith = (id: string) =>
  scripted((_request, response) => {
    json(response, { bag_id: id })
  })

describe('an upload', () => {
  it('sends a form with a known length, the description first', async () => {
    const server = await answerWith('new')
    const progress: number[] = []
    const source = await fileToUpload('hello', { description: 'über\r\nzwei' })
    const service = serviceFor(server.url)
    expect(await service.uploadFile(source, { onProgress: (n) => progress.push(n) })).toBe('new')
    const [request] = server.received
    expect(request).toMatchObject({ method: 'POST', path: '/api/files/upload' })
    expect(request === undefined ? undefined : formOf(request)).toEqual({
      headers:
        'Content-Disposition: form-data; name="file"; filename="report.txt"\r\n' +
        'Content-Type: application/octet-stream',
      description: 'über\r\nzwei',
      content: 'hello',
    })
    expect(progress).toEqual([0, 5])
  })

  it('of a folder names the part NAME.zip', async () => {
    const server = await answerWith('new')
    await serviceFor(server.url).uploadFolder(await fileToUpload('PK', { name: 'My docs' }))
    expect(server.received[0]?.path).toBe('/api/folders/upload')
    const text = server.received[0]?.body.toString()
    expect(text).toContain('filename="My docs.zip"\r\nContent-Type: application/zip')
  })

  it('sends names as raw UTF-8, and coded too where a quoted text cannot carry them', async () => {
    const server = await answerWith('new')
    const name = 'ü🙂 "q" %22 \\ (x)'
    await serviceFor(server.url).uploadFile(await fileToUpload('x', { name }))
    const text = server.received[0]?.body.toString()
    const coded = '%C3%BC%F0%9F%99%82%20%22q%22%20%2522%20%5C%20%28x%29'
    expect(text).toContain(
      `form-data; filename="ü🙂 %22q%22 %22 \\\\ (x)"; filename*=UTF-8''${coded}; name="file"\r\n`,
    )
  })

  it('sends names with a line end as browsers do', async () => {
    const server = await answerWith('new')
    const name = 'ü "q" \r\nX: y'
    await serviceFor(server.url).uploadFile(await fileToUpload('x', { name }))
    const text = server.received[0]?.body.toString()
    expect(text).toContain('form-data; name="file"; filename="ü %22q%22 %0D%0AX: y"\r\n')
  })

  it('of nothing is sent', async () => {
    const server = await answerWith('new')
    await serviceFor(server.url).uploadFile(await fileToUpload(''))
    expect(server.received).toHaveLength(1)
  })

  it.each(['', 'a/b', 'a\0b', 'lone \ud800'])('with the name %j is not sent', async (name) => {
    const server = await answerWith('new')
    const error = await failureOf(
      serviceFor(server.url).uploadFile(await fileToUpload('x', { name })),
    )
    expect(error.code).toBe('bad-name')
    expect(server.received).toEqual([])
  })

  it('of a file that is missing or of another length fails before anything is done', async () => {
    const server = await answerWith('new')
    const service = serviceFor(server.url)
    const source = await fileToUpload('hello')
    const missing = await failureOf(service.uploadFile({ ...source, path: `${source.path}.no` }))
    expect(missing.code).toBe('local-io')
    const longer = await failureOf(service.uploadFile({ ...source, length: 4 }))
    const shorter = await failureOf(service.uploadFile({ ...source, length: 6 }))
    expect([longer.code, shorter.code]).toEqual(['local-io', 'local-io'])
    expect(server.received).toEqual([])
  })

  it.each([
    ['grows', (path: string) => appendFile(path, 'more')],
    ['shrinks', (path: string) => truncate(path, 1000)],
  ])('of a file that %s on the way is never completed', async (_how, change) => {
    const server = await answerWith('new')
    const source = await fileToUpload(Buffer.alloc(8 * 1024 * 1024))
    let changed: Promise<void> | undefined
    const error = await failureOf(
      serviceFor(server.url).uploadFile(source, {
        onProgress: (sent) => {
          if (sent > 0) changed ??= change(source.path)
        },
      }),
    )
    await changed
    expect(error).toMatchObject({ code: 'local-io' })
    expect(error.facts.answerLost).toBeUndefined()
    expect(server.received).toEqual([])
  })

  const overwrite = async (path: string): Promise<void> => {
    const { atime, mtime } = await stat(path)
    const file = await open(path, 'r+')
    await file.write(Buffer.alloc(1000, 1), 0, 1000, 7 * 1024 * 1024)
    await file.close()
    await utimes(path, atime, mtime)
  }

  it('of a file that another program writes over on the way is never completed', async () => {
    const server = await answerWith('new')
    const source = await fileToUpload(Buffer.alloc(8 * 1024 * 1024))
    let changed: Promise<void> | undefined
    const error = await failureOf(
      serviceFor(server.url).uploadFile(
        { ...source, mayChange: true },
        {
          onProgress: (sent) => {
            if (sent > 0) changed ??= overwrite(source.path)
          },
        },
      ),
    )
    await changed
    expect(error).toMatchObject({
      code: 'local-io',
      facts: { hint: 'Try again when nothing writes to it.' },
    })
    expect(error.message).toBe(`${source.path} changed while it was to be uploaded.`)
    expect(error.facts.answerLost).toBeUndefined()
    expect(server.received).toEqual([])
  })

  it('of a file of the drive goes on when its times are set on the way', async () => {
    const server = await answerWith('new')
    const source = await fileToUpload(Buffer.alloc(8 * 1024 * 1024))
    let changed: Promise<void> | undefined
    const onProgress = (sent: number): void => {
      if (sent > 0) changed ??= utimes(source.path, 1, 1)
    }
    expect(await serviceFor(server.url).uploadFile(source, { onProgress })).toBe('new')
    await changed
  })

  it('is sent once more with its name when the service wants a description', async () => {
    const server = await scripted((_request, response, turn) => {
      if (turn === 0) json(response, detail('description'), 422)
      else json(response, { bag_id: 'new' })
    })
    await serviceFor(server.url).uploadFolder(
      await fileToUpload('x', { name: 'docs', description: '' }),
    )
    expect(server.received.map((request) => formOf(request).description)).toEqual(['', 'docs'])
  })

  it('with a description, or refused for another reason, is not sent again', async () => {
    const server = await scripted(({ body }, response) => {
      json(response, detail(body.includes('mine') ? 'description' : 'file'), 422)
    })
    const service = serviceFor(server.url)
    for (const description of ['mine', '']) {
      const error = await failureOf(service.uploadFile(await fileToUpload('x', { description })))
      expect(error.code).toBe('rejected')
    }
    expect(server.received).toHaveLength(2)
  })

  it.each([429, 503])('is sent again after %i, whole', async (status) => {
    const server = await scripted((_request, response, turn) => {
      if (turn === 0) json(response, {}, status)
      else json(response, { bag_id: 'new' })
    })
    const progress: number[] = []
    await serviceFor(server.url).uploadFile(await fileToUpload('hello'), {
      onProgress: (n) => progress.push(n),
    })
    expect(server.received.map((request) => formOf(request).content)).toEqual(['hello', 'hello'])
    expect(progress).toEqual([0, 5, 0, 5])
  })

  it.each([500, 502, 504])('is left in doubt after %i', async (status) => {
    const server = await scripted((_request, response) => {
      json(response, {}, status)
    })
    const error = await failureOf(serviceFor(server.url).uploadFile(await fileToUpload('hello')))
    expect(error.facts).toMatchObject({ status, answerLost: true })
    expect(server.received).toHaveLength(1)
  })

  it.each([400, 401, 403, 404, 413, 422, 507])(
    'is known not to be done after %i',
    async (status) => {
      const server = await scripted((_request, response) => {
        json(response, {}, status)
      })
      const error = await failureOf(serviceFor(server.url).uploadFile(await fileToUpload('hello')))
      expect(error.facts.status).toBe(status)
      expect(error.facts.answerLost).toBeUndefined()
      expect(server.received).toHaveLength(status === 401 ? 2 : 1)
    },
  )

  it('whose answer is lost says so and is not repeated', async () => {
    const server = await scripted((_request, response) => response.socket?.destroy())
    const error = await failureOf(serviceFor(server.url).uploadFile(await fileToUpload('hello')))
    expect(error).toMatchObject({ code: 'unavailable', facts: { answerLost: true } })
    expect(server.received).toHaveLength(1)
  })

  it.each(['', '{}', '<html>', '{"bag_id":'])('is left in doubt by the answer %j', async (body) => {
    const server = await scripted((_request, response) => response.writeHead(200).end(body))
    const error = await failureOf(serviceFor(server.url).uploadFile(await fileToUpload('hello')))
    expect(error).toMatchObject({ code: 'bad-answer', facts: { answerLost: true } })
    expect(server.received).toHaveLength(1)
  })

  it('that is cut before its end is sent again', async () => {
    let requests = 0
    const { url } = await listening((request, response) => {
      requests += 1
      request.on('error', () => undefined)
      if (requests === 1) request.once('data', () => request.socket.destroy())
      else
        request
          .on('end', () => {
            json(response, { bag_id: 'new' })
          })
          .resume()
    })
    const source = await fileToUpload(Buffer.alloc(16 * 1024 * 1024))
    expect(await serviceFor(url).uploadFile(source)).toBe('new')
    expect(requests).toBe(2)
  })

  it('shows the answer that comes before the body is sent', async () => {
    const { url } = await listening((request, response) => {
      request.on('error', () => undefined)
      json(response, { detail: 'Too large' }, 413)
    })
    const source = await fileToUpload(Buffer.alloc(16 * 1024 * 1024))
    const error = await failureOf(serviceFor(url).uploadFile(source))
    expect(error).toMatchObject({ code: 'too-large', facts: { status: 413 } })
  })

  it('of 300 MB needs little memory', async () => {
    const length = 300 * 1024 * 1024
    let received = 0
    const { url } = await listening((request, response) => {
      request.on('data', (chunk: Buffer) => (received += chunk.length))
      request.on('end', () => {
        json(response, { bag_id: 'new' })
      })
    })
    const source = await fileToUpload('')
    await truncate(source.path, length)
    const before = process.memoryUsage().rss
    let peak = before
    await serviceFor(url).uploadFile(
      { ...source, length },
      { onProgress: () => (peak = Math.max(peak, process.memoryUsage().rss)) },
    )
    expect(received).toBeGreaterThan(length)
    expect(peak - before).toBeLessThan(100 * 1024 * 1024)
  })

  it('never runs more than maxUploads at a time', async () => {
    let running = 0
    let most = 0
    const { url } = await listening((request, response) => {
      running += 1
      most = Math.max(most, running)
      request.on('end', () => {
        setImmediate(() => {
          running -= 1
          json(response, { bag_id: 'new' })
        })
      })
      request.resume()
    })
    const source = await fileToUpload(Buffer.alloc(1024 * 1024))
    const service = serviceFor(url, { maxUploads: 2 })
    await Promise.all(Array.from({ length: 8 }, () => service.uploadFile(source)))
    expect(most).toBe(2)
  })

  it('closes its file whatever happens', async () => {
    const server = await scripted((_request, response, turn) => {
      if (turn === 0) json(response, { bag_id: 'new' })
      else response.socket?.destroy()
    })
    const source = await fileToUpload('hello')
    const service = serviceFor(server.url)
    await service.uploadFile(source)
    await failureOf(service.uploadFile(source))
    const links = await Promise.all(
      (await readdir('/proc/self/fd')).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => '')),
    )
    expect(links).not.toContain(source.path)
  })
})
