import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { connect, createServer as listenRaw } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { ControlActions } from '../../../src/control/actions.ts'
import {
  askContent,
  askMetrics,
  askOutbox,
  askStatus,
  askToClearCache,
  askToEmptyTrash,
  askToExplain,
  askToLeave,
  askToPin,
  askToRefresh,
  askToRestore,
  askToSync,
  askToTrace,
  askToUnpin,
  askToVerify,
  askToWarmUp,
} from '../../../src/control/client.ts'
import type {
  DriveStatus,
  TraceEvent,
  TraceFilter,
  WireExplanation,
  WireItem,
} from '../../../src/control/protocol.ts'
import { ControlServer } from '../../../src/control/server.ts'
import { DriveError } from '../../../src/domain/errors.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { listItems } from '../../../src/outbox/items.ts'
import { intentId, put } from '../namespace/builders.ts'

const items = listItems([put(1, 'a.txt'), put(2, 'b.txt')])
const status: DriveStatus = {
  version: 1,
  mountpoint: '/drive',
  pid: 1,
  service: 'http://service',
  account: 'me',
  mode: 'back',
  listing: { ageMs: null, records: 0 },
  cache: { bytes: 0, maxBytes: 10, bags: 0 },
  uploads: [],
  downloads: [{ bagId: 'b', receivedBytes: 1 }],
  outbox: [...items] satisfies WireItem[],
  room: [],
  damaged: [],
}

let dir: string
let socketPath: string
let server: ControlServer | undefined
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'bagfs-control-'))
  socketPath = join(dir, 'control.sock')
})
afterEach(async () => {
  await server?.close()
  server = undefined
  await rm(dir, { recursive: true })
})

async function serve(some: Partial<ControlActions>): Promise<void> {
  const none = (): never => {
    throw new Error('This was not to be asked.')
  }
  const actions: ControlActions = {
    leave: none,
    status: none,
    renewSpace: () => Promise.resolve(),
    explain: none,
    warmUp: none,
    pin: none,
    unpin: none,
    refresh: none,
    metrics: none,
    trace: none,
    sync: none,
    retry: none,
    discard: none,
    openContent: none,
    verifyCache: none,
    clearCache: none,
    trash: none,
    restore: none,
    emptyTrash: none,
    ...some,
  }
  server = await ControlServer.start({ actions, log: silentLogger }, { socketPath })
}

it('lets nobody else ask', async () => {
  await serve({})
  expect((await stat(socketPath)).mode & 0o777).toBe(0o600)
})

it('tells the status as it is, and nothing when the drive is dead', async () => {
  await serve({ status: () => status })
  expect(await askStatus(socketPath)).toEqual(status)
  await server?.close()
  server = undefined
  expect(await askStatus(socketPath)).toBeUndefined()
  expect(await askToLeave(socketPath, { now: false, onProgress: () => undefined })).toBe('dead')
})

it('tells the figures as they are', async () => {
  await serve({ metrics: () => Promise.resolve('bagfs_uploads 0\n') })
  expect(await askMetrics(socketPath)).toBe('bagfs_uploads 0\n')
})

it('is told to have ended where it ends before it has answered', async () => {
  const killed = listenRaw((socket) => socket.once('data', () => socket.destroy()))
  killed.listen(socketPath)
  await once(killed, 'listening')
  try {
    const asked = askToRestore(socketPath, 'a', { replace: false })
    await expect(asked).rejects.toMatchObject({ code: 'unavailable' })
  } finally {
    killed.close()
  }
})

it('passes names and ids on whatever they hold', async () => {
  const asked: unknown[] = []
  await serve({
    sync: ({ name, onProgress }) => {
      asked.push(name)
      onProgress(3)
      return Promise.resolve({ left: [], beingWritten: [] })
    },
    retry: (ids) => {
      asked.push(ids)
      return Promise.resolve(items)
    },
  })
  const name = 'a&b=c?#%20 ü☃\n.txt'
  const progress: number[] = []
  const onProgress = (waiting: number): void => {
    progress.push(waiting)
  }
  expect(await askToSync(socketPath, { name, onProgress })).toMatchObject({ left: [] })
  expect(await askToSync(socketPath, { onProgress })).toMatchObject({ left: [] })
  expect(await askOutbox(socketPath, 'retry', [name, 'x'])).toEqual(items)
  expect(asked).toEqual([name, undefined, [name, 'x']])
  expect(progress).toEqual([3, 3])
})

it('takes as many ids at once as an outbox or a trash may have', async () => {
  const asked: (readonly string[])[] = []
  const take = (ids: readonly string[]): Promise<[]> => {
    asked.push(ids)
    return Promise.resolve([])
  }
  await serve({ retry: take, discard: take, emptyTrash: take })
  const ids = Array.from({ length: 50_000 }, () => randomUUID())
  await askOutbox(socketPath, 'retry', ids)
  await askOutbox(socketPath, 'discard', ids)
  await askToEmptyTrash(socketPath, ids)
  expect(asked).toEqual([ids, ids, ids])
})

it('refuses more ids than it would keep in memory', async () => {
  await serve({})
  const asked = askToEmptyTrash(socketPath, ['x'.repeat(17 * 1024 * 1024)])
  await expect(asked).rejects.toMatchObject({
    code: 'usage',
    message: 'These are too many items to be named at once.',
  })
})

it('takes a question that names no ids, as a command of another version asks it, for none', async () => {
  await serve({})
  const told = await new Promise<string>((resolve, reject) => {
    request({ socketPath, path: '/trash/items/empty?id=a', method: 'POST' }, (response) => {
      text(response).then(resolve, reject)
    }).end()
  })
  expect(JSON.parse(told)).toMatchObject({ code: 'bad-request' })
})

it('explains a path by its names, whatever they hold', async () => {
  const told: WireExplanation = {
    path: 'a',
    what: 'file',
    state: 'stored',
    ...{ places: ['service'], changes: [...items], waitsFor: [], conflicts: [], leftOut: [] },
    inTrash: [],
  }
  const asked: unknown[] = []
  await serve({
    explain: (names) => {
      asked.push(names)
      return Promise.resolve(told)
    },
  })
  const names = ['a&name=b', '%20 ü☃\n', '']
  expect(await askToExplain(socketPath, names)).toEqual(told)
  expect(await askToExplain(socketPath, [])).toEqual(told)
  expect(asked).toEqual([names, []])
})

it('pins and unpins by names, whatever they hold', async () => {
  const names = ['a&name=b', '%20 ü☃\n']
  const pin = { name: 'a', bytes: 2, hereBytes: 1, state: 'waits', reason: 'away' } as const
  const asked: unknown[] = []
  await serve({
    pin: (which) => {
      asked.push(which)
      return Promise.resolve(pin)
    },
    unpin: (which) => {
      asked.push(which)
      return Promise.reject(new DriveError('not-found', 'It is not pinned.'))
    },
  })
  expect(await askToPin(socketPath, names)).toEqual(pin)
  await expect(askToUnpin(socketPath, names)).rejects.toMatchObject({ code: 'not-found' })
  expect(asked).toEqual([names, names])
})

it('tells how far a warm-up is, and ends it when who asked has gone', async () => {
  const progress = { bags: 0, ofBags: 1, bytes: 5, ofBytes: 10 }
  const done = { bags: 1, bytes: 10, failed: [{ name: 'b', reason: 'gone' }] }
  let stopped: Promise<unknown> = Promise.resolve()
  await serve({
    refresh: () => Promise.resolve(3),
    warmUp: async (names, { onProgress, signal }) => {
      onProgress(progress)
      if (names.includes('fast')) return done
      stopped = new Promise((resolve) => {
        signal.addEventListener('abort', resolve)
      })
      await stopped
      return done
    },
  })
  expect(await askToRefresh(socketPath)).toBe(3)
  const told: unknown[] = []
  const stop = new AbortController()
  const options = (onProgress: (each: unknown) => void) => ({ onProgress, signal: stop.signal })
  const onProgress = (each: unknown): void => {
    told.push(each)
  }
  expect(await askToWarmUp(socketPath, ['fast'], options(onProgress))).toMatchObject(done)
  expect(told).toEqual([progress])
  const given = askToWarmUp(
    socketPath,
    ['slow'],
    options(() => {
      stop.abort(new DriveError('interrupted', 'by the test'))
    }),
  )
  await expect(given).rejects.toMatchObject({ code: 'interrupted' })
  await stopped
})

const TRACED: TraceEvent = { type: 'operation', atMs: 1, operation: 'read', tookMs: 0.5 }

/** A trace that tells one operation again and again, as fast as it is read. */
async function* traceWithoutEnd(
  signal: AbortSignal,
  length = 100,
): AsyncGenerator<readonly TraceEvent[]> {
  yield [{ type: 'begun' }]
  const batch = Array.from({ length }, () => TRACED)
  while (!signal.aborted) {
    await new Promise((resolve) => setImmediate(resolve))
    yield batch
  }
}

it('traces what is asked for, until the drive leaves', async () => {
  const filter: TraceFilter = {
    operations: ['read', 'write'],
    path: '/a&b ü',
    ...{ pid: 4, slowMs: 0, without: 5 },
  }
  const asked: unknown[] = []
  await serve({
    trace: async function* (given, signal) {
      asked.push(given)
      yield [{ type: 'begun' }, TRACED]
      await new Promise((resolve) => {
        signal.addEventListener('abort', resolve)
      })
      yield [{ type: 'lost', count: 2 }]
    },
  })
  const told: TraceEvent[] = []
  let closed: Promise<void> | undefined
  for await (const event of askToTrace(socketPath, filter, new AbortController().signal)) {
    told.push(event)
    if (event.type === 'operation') closed = server?.close()
  }
  await closed
  expect(asked).toEqual([filter])
  expect(told).toEqual([{ type: 'begun' }, TRACED, { type: 'lost', count: 2 }, { type: 'left' }])
})

it('ends a trace when who follows it has gone', async () => {
  let ended = (): void => undefined
  const isOver = new Promise<void>((resolve) => {
    ended = resolve
  })
  await serve({
    trace: async function* (_filter, signal) {
      try {
        yield* traceWithoutEnd(signal)
      } finally {
        ended()
      }
    },
  })
  const stop = new AbortController()
  let count = 0
  for await (const event of askToTrace(socketPath, { operations: [] }, stop.signal)) {
    count += 1
    if (event.type === 'operation') stop.abort()
  }
  expect(count).toBeGreaterThan(1)
  await isOver
})

it('is not held up by a trace that nobody reads when it leaves', async () => {
  // More than a socket takes that is not read.
  await serve({ trace: (_filter, signal) => traceWithoutEnd(signal, 50_000) })
  const client = connect(socketPath, () => client.write('POST /trace HTTP/1.1\r\nHost: d\r\n\r\n'))
  client.on('error', () => undefined)
  await once(client, 'readable')
  await server?.close()
  client.resume()
  await once(client, 'close')
})

it('tells that a drive which is traced was killed, and refuses what is no filter', async () => {
  await serve({ trace: (_filter, signal) => traceWithoutEnd(signal) })
  const bad = askToTrace(socketPath, { operations: [], pid: NaN }, new AbortController().signal)
  await expect(bad.next()).rejects.toMatchObject({ code: 'usage' })
  await server?.close()
  const killed = listenRaw((socket) =>
    socket.once('data', () => {
      socket.end(
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11\r\n{"type":"begun"}\n\r\n',
      )
    }),
  )
  killed.listen(socketPath)
  await once(killed, 'listening')
  try {
    const events = askToTrace(socketPath, { operations: [] }, new AbortController().signal)
    expect((await events.next()).value).toEqual({ type: 'begun' })
    await expect(events.next()).rejects.toMatchObject({
      code: 'unavailable',
      message: 'The process of the drive has ended.',
    })
  } finally {
    killed.close()
  }
})

it('hands errors of the drive over as they are', async () => {
  const error = new DriveError('busy', 'It is being sent.', { hint: 'Wait.' })
  const fail = (): Promise<never> => Promise.reject(error)
  await serve({ sync: fail, discard: fail, openContent: fail, verifyCache: fail, clearCache: fail })
  const expected = { code: 'busy', message: 'It is being sent.', facts: { hint: 'Wait.' } }
  const nothing = (): void => undefined
  await expect(askToSync(socketPath, { onProgress: nothing })).rejects.toMatchObject(expected)
  await expect(askOutbox(socketPath, 'discard', [])).rejects.toMatchObject(expected)
  await expect(askContent(socketPath, 'x')).rejects.toMatchObject(expected)
  await expect(askToVerify(socketPath, nothing)).rejects.toMatchObject(expected)
  await expect(askToClearCache(socketPath)).rejects.toMatchObject(expected)
})

it('is told apart from a bug when the drive has left before it is asked to sync', async () => {
  const gone = askToSync(join(dir, 'gone.sock'), { onProgress: () => undefined })
  await expect(gone).rejects.toMatchObject({
    code: 'unavailable',
    message: 'The drive ended before it answered.',
    facts: { hint: expect.stringContaining('Mount it again') as unknown },
  })
})

it('tells what a check found, with progress, and stops it when who asked has gone', async () => {
  const report = { good: 1, unknown: 0, bad: ['b'], unreadable: [] }
  let stopped: Promise<unknown> = Promise.resolve()
  await serve({
    verifyCache: async ({ onProgress, signal }) => {
      onProgress(1)
      if (report.good === 1) return report
      stopped = new Promise((resolve) => {
        signal.addEventListener('abort', resolve)
      })
      await stopped
      return report
    },
  })
  const checked: number[] = []
  expect(await askToVerify(socketPath, (count) => checked.push(count))).toEqual(report)
  expect(checked).toEqual([1])
  report.good = 2
  await new Promise<void>((resolve) => {
    const asking = request({ socketPath, path: '/cache/verify', method: 'POST' }, (answer) => {
      answer.once('data', () => {
        asking.destroy()
        resolve()
      })
      answer.on('error', () => undefined)
    })
    asking.on('error', () => undefined).end()
  })
  await stopped
})

it('streams content', async () => {
  await serve({
    openContent: (id) => Promise.resolve(Readable.from([Buffer.from(`content of ${id}`)])),
  })
  expect(await text(await askContent(socketPath, intentId(1)))).toBe(`content of ${intentId(1)}`)
})

it('says that it does not know what a later version asks', async () => {
  await serve({})
  const answer = await new Promise<{ code: number | undefined; body: string }>((resolve) => {
    request({ socketPath, path: '/dance', method: 'POST' }, (response) => {
      text(response).then(
        (body) => {
          resolve({ code: response.statusCode, body })
        },
        () => undefined,
      )
    }).end()
  })
  expect(answer.code).toBe(404)
  expect(JSON.parse(answer.body)).toMatchObject({ code: 'unsupported' })
})

it('breaks off, and does not answer, when something else goes wrong', async () => {
  await serve({
    status: () => status,
    renewSpace: () => Promise.resolve(),
    retry: () => Promise.reject(new Error('a bug')),
  })
  await expect(askOutbox(socketPath, 'retry', [])).rejects.toMatchObject({ code: 'unavailable' })
  expect(await askStatus(socketPath)).toEqual(status)
})

it('sends the answer that is under way when it leaves', async () => {
  let finish: (() => void) | undefined
  const synced = { left: items, beingWritten: ['docs/a.txt'] }
  const sync = (): Promise<typeof synced> =>
    new Promise((resolve) => {
      finish = () => {
        resolve(synced)
      }
    })
  await serve({ sync })
  const answer = askToSync(socketPath, { onProgress: () => undefined })
  await expect.poll(() => finish).toBeDefined()
  const closed = server?.close()
  finish?.()
  expect(await answer).toMatchObject(synced)
  await closed
})

it('leaves although somebody is connected who asks nothing, or half of something', async () => {
  let begun = (): void => undefined
  const isAsked = new Promise<void>((resolve) => {
    begun = resolve
  })
  const sync = (): Promise<never> => {
    begun()
    return new Promise(() => undefined)
  }
  await serve({ status: () => status, sync })
  const clients = [
    '',
    'GET /status HTTP/1.1\r\n',
    'POST /sync HTTP/1.1\r\nHost: drive\r\nContent-Length: 9\r\n\r\n{',
  ]
  const ended = clients.map((bytes) => {
    const client = connect(socketPath, () => client.write(bytes))
    client.on('error', () => undefined).resume()
    return new Promise((resolve) => client.once('close', resolve))
  })
  // Answered after the clients that connected before were let in.
  await askStatus(socketPath)
  await isAsked
  await server?.close()
  await Promise.all(ended)
})

it('takes what a drive of another version tells for no status', async () => {
  const other = createServer((_, response) => response.end('{"version":2}'))
  await new Promise<void>((resolve) => other.listen(socketPath, resolve))
  try {
    await expect(askStatus(socketPath)).rejects.toMatchObject({ code: 'bad-answer' })
    await expect(askToRefresh(socketPath)).rejects.toMatchObject({ code: 'bad-answer' })
  } finally {
    other.close()
  }
})

it('takes an answer that is no JSON for that of another version, and for no bug', async () => {
  const answers = [
    { status: 431, body: '' },
    { status: 200, body: '' },
    { status: 200, body: '{"records":' },
  ]
  const other = createServer((_, response) => {
    const { status: code = 500, body } = answers.shift() ?? {}
    response.writeHead(code).end(body)
  })
  await new Promise<void>((resolve) => other.listen(socketPath, resolve))
  try {
    while (answers.length > 0) {
      await expect(askToRefresh(socketPath)).rejects.toMatchObject({ code: 'bad-answer' })
    }
  } finally {
    other.close()
  }
})
