import type http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock, type Clock } from '../../../src/domain/clock.ts'
import { toBagId } from '../../../src/domain/ids.ts'
import { DriveError } from '../../../src/domain/errors.ts'
import type { StorageService } from '../../../src/service/storage-service.ts'
import type { ExchangeLimits, ExchangeRequest } from '../../../src/service/exchange.ts'
import { createHttpService } from '../../../src/service/http-service.ts'
import { Patience } from '../../../src/service/patience.ts'
import {
  bytesOf,
  failureOf,
  fileToUpload,
  json,
  listening,
  recordingLog,
  scripted,
  serviceFor,
} from './harness.ts'

const bag = toBagId('b1')
const SHORT = {
  connectTimeoutMs: 60,
  metadataTimeoutMs: 60,
  firstByteTimeoutMs: 60,
  stallTimeoutMs: 60,
  retries: 0,
}

/** Every call of the service by name. */
async function everyCall(
  service: StorageService,
  signal?: AbortSignal,
): Promise<Record<string, () => Promise<unknown>>> {
  const source = await fileToUpload('hello')
  const options = signal === undefined ? {} : { signal }
  return {
    uploadFile: () => service.uploadFile(source, options),
    uploadFolder: () => service.uploadFolder(source, options),
    addById: () => service.addById(bag, options),
    download: () => service.download(bag, options),
    deleteBag: () => service.deleteBag(bag, options),
    listFiles: () => service.listFiles(options),
    getAccount: () => service.getAccount(options),
  }
}

const CALLS = [
  'uploadFile',
  'uploadFolder',
  'addById',
  'download',
  'deleteBag',
  'listFiles',
  'getAccount',
] as const
const CHANGES: readonly string[] = ['uploadFile', 'uploadFolder', 'addById', 'deleteBag']

/** A clock on which a second passes between any two looks at it, and the waits that it was asked for. */
function clockThatRuns(): { readonly clock: Clock; readonly waits: readonly number[] } {
  const waits: number[] = []
  let now = 0
  const clock: Clock = {
    ...systemClock,
    now: () => (now += 1000),
    after: (ms, task) => {
      waits.push(ms)
      return systemClock.after(ms, task)
    },
  }
  return { clock, waits }
}

/** Takes connections and says nothing. */
async function silentSocket(): Promise<string> {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.resume()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

describe('a service that accepts and never answers', () => {
  it.each(CALLS)('ends %s at its deadline', async (name) => {
    const service = serviceFor(await silentSocket(), SHORT)
    const error = await failureOf((await everyCall(service))[name]?.() ?? Promise.resolve())
    expect(error.code).toBe('timed-out')
    expect(error.facts.answerLost).toBe(CHANGES.includes(name) ? true : undefined)
  })

  it('is asked once: a repeat would add its whole limit to the wait', async () => {
    const server = await scripted(() => undefined)
    const service = serviceFor(server.url, { ...SHORT, retries: 4 })
    expect((await failureOf(service.listFiles())).code).toBe('timed-out')
    expect(server.received).toHaveLength(1)
  })
})

describe('a limit', () => {
  const request: ExchangeRequest = {
    what: 'Looking',
    endpoint: 'list',
    method: 'GET',
    path: '/',
    headers: {},
    limits: { connectMs: 10_000, answerMs: 30_000, stallMs: 20_000, wholeMs: 12_000 },
    signal: new AbortController().signal,
  }
  const cut = new DriveError('unavailable', 'The connection was cut.')

  /** The limits of each of three tries, the first two of which are cut after 4 s and 7 s. */
  async function limitsOf(asked: ExchangeRequest): Promise<readonly ExchangeLimits[]> {
    let now = 0
    const patience = new Patience({ ...systemClock, now: () => now }, asked)
    const seen: ExchangeLimits[] = []
    for (const tookMs of [4_000, 7_000, 0]) {
      const attempt = patience.spend(({ limits }) => {
        seen.push(limits)
        now += tookMs
        return Promise.reject(cut)
      })
      expect(await failureOf(attempt)).toBe(cut)
    }
    return seen
  }

  it('is for a call with all its repeats', async () => {
    expect(await limitsOf(request)).toEqual([
      { connectMs: 10_000, answerMs: 30_000, stallMs: 20_000, wholeMs: 12_000 },
      { connectMs: 6_000, answerMs: 26_000, stallMs: 20_000, wholeMs: 8_000 },
      { connectMs: 1, answerMs: 19_000, stallMs: 20_000, wholeMs: 1_000 },
    ])
  })

  it('is not shortened by the time in which an upload moved', async () => {
    const body = { length: 5, pieces: () => Readable.from([]) }
    const seen = await limitsOf({ ...request, method: 'POST', body })
    expect(seen).toEqual([request.limits, request.limits, request.limits])
  })

  it('on the answer counts the time that the connection took', async () => {
    const server = await scripted((_request, response) => {
      response.end('content')
    })
    const { clock, waits } = clockThatRuns()
    const settings = { baseUrl: server.url, token: 'token', firstByteTimeoutMs: 7000 }
    const service = createHttpService({ log: recordingLog(), clock }, settings)
    onTestFinished(() => service.close())
    await bytesOf((await service.download(bag)).body)
    // 7 s less the second between two looks at the clock, in four ticks.
    expect(waits).toContain(1500)
  })

  it('on a short call begins before there is a connection', async () => {
    const url = (await silentSocket()).replace('http:', 'https:')
    const service = serviceFor(url, { ...SHORT, connectTimeoutMs: 3_600_000 })
    expect((await failureOf(service.getAccount())).code).toBe('timed-out')
  })

  it('does not begin while a call waits for its turn, which tells when that is over', async () => {
    const server = await scripted((_request, response, turn) => {
      if (turn === 0) response.writeHead(200).write('x')
      else response.end('second')
    })
    const service = serviceFor(server.url, { maxDownloads: 1 })
    const first = await service.download(bag)
    const told: string[] = []
    const second = service.download(bag, { onBegin: () => told.push('second') })
    const third = service.download(bag, {
      onBegin: () => {
        throw cut
      },
    })
    const fourth = service.download(bag, { onBegin: () => told.push('fourth') })
    await sleep(30)
    expect(told).toEqual([])
    first.body.destroy()
    expect((await bytesOf((await second).body)).toString()).toBe('second')
    expect(await failureOf(third)).toBe(cut)
    await bytesOf((await fourth).body)
    expect(told).toEqual(['second', 'fourth'])
    expect(server.received).toHaveLength(3)
  })
})

describe('a connection that is never made', () => {
  it('ends at its deadline, and is known not to have done anything', async () => {
    // TLS to a server that never shakes hands: a connection that is not there yet.
    const url = (await silentSocket()).replace('http:', 'https:')
    const service = serviceFor(url, { ...SHORT, connectTimeoutMs: 80 })
    const error = await failureOf(service.uploadFile(await fileToUpload('x')))
    expect(error.code).toBe('timed-out')
    expect(error.facts.answerLost).toBeUndefined()
  })

  it('to an https URL of a plain server is a bad answer', async () => {
    const server = await scripted(() => undefined)
    const service = serviceFor(server.url.replace('http:', 'https:'))
    const error = await failureOf(service.getAccount())
    expect(error.code).toBe('bad-answer')
  })
})

describe('a body that stands still', () => {
  it('ends a download as timed-out', async () => {
    const server = await scripted((_request, response) => {
      response.writeHead(200, { 'content-length': 100 })
      response.write('part')
    })
    const { body } = await serviceFor(server.url, SHORT).download(bag)
    expect((await failureOf(bytesOf(body))).code).toBe('timed-out')
  })

  it('ends a listing as timed-out, and an account within its whole time', async () => {
    let timer: NodeJS.Timeout | undefined
    const server = await scripted(({ path }, response) => {
      response.writeHead(200)
      response.write(' ')
      // The account trickles: each byte is in time, the whole is not.
      if (path === '/api/user') timer = setInterval(() => response.write(' '), 10)
    })
    onTestFinished(() => {
      clearInterval(timer)
    })
    const service = serviceFor(server.url, SHORT)
    expect((await failureOf(service.listFiles())).code).toBe('timed-out')
    expect((await failureOf(service.getAccount())).code).toBe('timed-out')
  })

  it('ends an upload that nobody takes, and it is known not to be done', async () => {
    const { url } = await listening((request) => {
      request.on('error', () => undefined)
      request.pause()
    })
    const source = await fileToUpload(Buffer.alloc(32 * 1024 * 1024))
    const error = await failureOf(serviceFor(url, SHORT).uploadFile(source))
    expect(error.code).toBe('timed-out')
    expect(error.message).toMatch(/stopped taking/)
    expect(error.facts.answerLost).toBeUndefined()
  })

  it('does not end an upload that is taken slowly', async () => {
    const { url } = await listening((request, response) => {
      request.on('data', () => {
        request.pause()
        setTimeout(() => request.resume(), 8)
      })
      request.on('end', () => {
        json(response, { bag_id: 'new' })
      })
    })
    const source = await fileToUpload(Buffer.alloc(24 * 1024 * 1024))
    const settings = { ...SHORT, stallTimeoutMs: 400, firstByteTimeoutMs: 10_000 }
    expect(await serviceFor(url, settings).uploadFile(source)).toBe('new')
  })

  it('leaves an upload as long for what is still on its way as it took so far', async () => {
    const server = await scripted((_request, response) => {
      json(response, { bag_id: 'new' })
    })
    const { clock, waits } = clockThatRuns()
    const settings = { baseUrl: server.url, token: 'token', firstByteTimeoutMs: 7000 }
    const service = createHttpService({ log: recordingLog(), clock }, settings)
    onTestFinished(() => service.close())
    await service.uploadFile(await fileToUpload(Buffer.alloc(70_000)))
    // The limit of 7 s and the five that sending took (four pieces and the end), in four ticks.
    expect(waits).toContain(3000)
  })

  it('does not end a download that moves, or whose reader is slow', async () => {
    const chunks = 12
    const { url } = await listening((_request, response) => {
      response.writeHead(200, { 'content-length': chunks * 1000 + 4_000_000 })
      let sent = 0
      const timer = setInterval(() => {
        response.write(Buffer.alloc(1000))
        sent += 1
        if (sent < chunks) return
        clearInterval(timer)
        response.end(Buffer.alloc(4_000_000))
      }, 20)
    })
    const { body } = await serviceFor(url, { ...SHORT, stallTimeoutMs: 200 }).download(bag)
    let length = 0
    let isFirstPause = true
    for await (const chunk of body as AsyncIterable<Buffer>) {
      length += chunk.length
      if (length > 1_000_000 && isFirstPause) {
        isFirstPause = false
        await sleep(500)
      }
    }
    expect(length).toBe(chunks * 1000 + 4_000_000)
  })
})

describe('cancelling', () => {
  it.each(CALLS)('%s before it starts sends nothing', async (name) => {
    const server = await scripted(() => undefined)
    const calls = await everyCall(serviceFor(server.url), AbortSignal.abort())
    const error = await failureOf(calls[name]?.() ?? Promise.resolve())
    expect(error.code).toBe('interrupted')
    expect(error.facts.answerLost).toBeUndefined()
    expect(server.received).toEqual([])
  })

  it.each(CALLS)('%s while it waits for the answer frees the connection', async (name) => {
    const controller = new AbortController()
    const closed: Promise<unknown>[] = []
    const server = await scripted((_request, response) => {
      closed.push(new Promise((resolve) => response.once('close', resolve)))
      controller.abort()
    })
    const calls = await everyCall(serviceFor(server.url), controller.signal)
    const error = await failureOf(calls[name]?.() ?? Promise.resolve())
    expect(error.code).toBe('interrupted')
    expect(error.facts.answerLost).toBe(CHANGES.includes(name) ? true : undefined)
    await Promise.all(closed)
  })

  it('works while the connection is made, in the queue, and between repeats', async () => {
    const tls = (await silentSocket()).replace('http:', 'https:')
    const busy = await scripted((_request, response) => {
      response.setHeader('retry-after', '5')
      json(response, {}, 503)
    })
    const held = await scripted((_request, response) => {
      response.writeHead(200).write('x')
    })
    const queued = serviceFor(held.url, { maxDownloads: 1 })
    await queued.download(bag)
    for (const call of [
      (signal: AbortSignal) => serviceFor(tls).getAccount({ signal }),
      (signal: AbortSignal) => queued.download(bag, { signal }),
      (signal: AbortSignal) => serviceFor(busy.url).getAccount({ signal }),
    ]) {
      const controller = new AbortController()
      const failure = failureOf(call(controller.signal))
      await sleep(30)
      controller.abort()
      expect((await failure).code).toBe('interrupted')
    }
  })

  it('while the connection is made lets nothing be sent when it is there', async () => {
    const server = await scripted((_request, response) => {
      json(response, [])
    })
    const controller = new AbortController()
    const service = serviceFor(server.url)
    const failure = failureOf(service.addById(bag, { signal: controller.signal }))
    // Long enough to reach the socket, too short for a connection.
    for (let n = 0; n < 20; n += 1) await Promise.resolve()
    controller.abort()
    expect((await failure).code).toBe('interrupted')
    await service.listFiles()
    expect(server.received.map(({ method }) => method)).toEqual(['GET'])
  })

  it('in the middle of an upload leaves no doubt that it is not done', async () => {
    const controller = new AbortController()
    const aborted: Promise<unknown>[] = []
    const { url } = await listening((request) => {
      request.on('error', () => undefined)
      aborted.push(new Promise((resolve) => request.once('close', resolve)))
      request.once('data', () => {
        controller.abort()
      })
    })
    const source = await fileToUpload(Buffer.alloc(64 * 1024 * 1024))
    const error = await failureOf(serviceFor(url).uploadFile(source, { signal: controller.signal }))
    expect(error.code).toBe('interrupted')
    expect(error.facts.answerLost).toBeUndefined()
    await Promise.all(aborted)
  })

  it('in the middle of a download ends its body, compressed or not', async () => {
    for (const headers of [{}, { 'content-encoding': 'gzip' }]) {
      const closed: Promise<unknown>[] = []
      const server = await scripted((_request, response) => {
        closed.push(new Promise((resolve) => response.once('close', resolve)))
        response.writeHead(200, headers)
        response.flushHeaders()
      })
      const controller = new AbortController()
      const service = serviceFor(server.url)
      const { body } = await service.download(bag, { signal: controller.signal })
      controller.abort()
      expect((await failureOf(bytesOf(body))).code).toBe('interrupted')
      await Promise.all(closed)
    }
  })
})

describe('closing', () => {
  it('ends what runs, frees the connections, and refuses what comes later', async () => {
    const agentless: http.ServerResponse[] = []
    const server = await scripted((request, response) => {
      agentless.push(response)
      if (request.path.includes('download')) response.writeHead(200).write('x')
    })
    const service = serviceFor(server.url)
    const { body } = await service.download(bag)
    const listing = failureOf(service.listFiles())
    await expect.poll(() => server.received.length).toBe(2)
    const closed = agentless.map((one) => new Promise((resolve) => one.once('close', resolve)))
    await service.close()
    expect((await listing).code).toBe('interrupted')
    expect((await failureOf(bytesOf(body))).code).toBe('interrupted')
    await Promise.all(closed)
    expect((await failureOf(service.getAccount())).code).toBe('interrupted')
    await service.close()
  })
})
