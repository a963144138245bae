import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { DriveError, type DriveErrorCode } from '../domain/errors.ts'
import type { ControlActions } from './actions.ts'
import type {
  LeavingEvent,
  LeavingProgress,
  Refusal,
  SyncEvent,
  TraceEvent,
  VerifyEvent,
  WarmUpEvent,
  WireWarmUpProgress,
} from './protocol.ts'
import { wantedContent, wantedItems, wantedRestore } from './protocol.ts'
import { readJson } from './read-json.ts'
import { fromTraceQuery } from './trace-query.ts'

interface ControlCall {
  readonly actions: ControlActions
  readonly request: IncomingMessage
  readonly query: URLSearchParams
  readonly response: ServerResponse
  /** Aborted when the client has gone. */
  readonly signal: AbortSignal
  /** Aborted when the drive leaves: an answer without an end of its own is to end. */
  readonly closing: AbortSignal
}

/** How long the last lines of a trace may take to be read: the drive that leaves waits for them. */
const LAST_LINES_MS = 1_000

type Route = (exchange: ControlCall) => Promise<void>

/**
 * What can be asked, by method and path. `name` may be given several times. Ids come in the body, and at paths of their own:
 * a drive of before, which looks for them in the query, would see none and take all.
 */
const ROUTES: Readonly<Record<string, Route>> = {
  'POST /leave': leave,
  'GET /status': async ({ actions, response }) => {
    await actions.renewSpace()
    await sendJson(response, actions.status())
  },
  'GET /explain': async ({ actions, query, response }) =>
    sendJson(response, await actions.explain(query.getAll('name'))),
  'GET /metrics': async ({ actions, response }) => {
    const figures = await actions.metrics()
    response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' })
    response.write(figures)
    await end(response)
  },
  'POST /trace': trace,
  'POST /sync': sync,
  'POST /warmup': warmUp,
  'POST /pin': async ({ actions, query, response }) =>
    sendJson(response, await actions.pin(query.getAll('name'))),
  'POST /unpin': async ({ actions, query, response }) =>
    sendJson(response, { name: await actions.unpin(query.getAll('name')) }),
  'POST /refresh': async ({ actions, response }) =>
    sendJson(response, { records: await actions.refresh() }),
  'POST /outbox/items/retry': async ({ actions, request, response }) => {
    const { ids } = await readJson(request, wantedItems)
    await sendJson(response, await actions.retry(ids))
  },
  'POST /outbox/items/discard': async ({ actions, request, response }) => {
    const { ids } = await readJson(request, wantedItems)
    await sendJson(response, await actions.discard(ids))
  },
  'POST /outbox/items/content': async ({ actions, request, response }) => {
    const { id } = await readJson(request, wantedContent)
    const content = await actions.openContent(id)
    response.writeHead(200, { 'content-type': 'application/octet-stream', connection: 'close' })
    await pipeline(content, response)
  },
  'POST /cache/verify': verify,
  'POST /cache/clear': async ({ actions, response }) => {
    await actions.clearCache()
    await sendJson(response, actions.status().cache)
  },
  'GET /trash': ({ actions, response }) => sendJson(response, actions.trash()),
  'POST /trash/items/restore': async ({ actions, request, response }) => {
    const { id, ...options } = await readJson(request, wantedRestore)
    await sendJson(response, await actions.restore(id, options))
  },
  'POST /trash/items/empty': async ({ actions, request, response }) => {
    const { ids } = await readJson(request, wantedItems)
    await sendJson(response, await actions.emptyTrash(ids))
  },
}

/** Answers one request. A DriveError goes to the client, anything else rejects. */
export async function answer(
  actions: ControlActions,
  request: IncomingMessage,
  response: ServerResponse,
  closing: AbortSignal,
): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://drive')
  const route = ROUTES[`${request.method ?? ''} ${url.pathname}`]
  if (route === undefined) {
    const error = new DriveError('unsupported', 'This drive is of another version of bagfs.')
    await sendJson(response, refusalOf(error), 404)
    return
  }
  const gone = new AbortController()
  response.once('close', () => {
    gone.abort(new DriveError('interrupted', 'Whoever asked has gone.'))
  })
  try {
    await route({
      actions,
      request,
      query: url.searchParams,
      response,
      signal: gone.signal,
      closing,
    })
  } catch (error) {
    if (gone.signal.aborted) return
    if (!(error instanceof DriveError) || response.headersSent) throw error
    await sendJson(response, refusalOf(error), statusOf(error.code))
  }
}

async function leave({ actions, query, response }: ControlCall): Promise<void> {
  const refused = ({ message, hint }: Refusal): LeavingEvent => ({
    type: 'busy',
    message,
    ...(hint === undefined ? {} : { hint }),
  })
  await answerInLines<LeavingEvent>(response, refused, async (send) => {
    const onProgress = (progress: LeavingProgress): void => {
      send({ type: 'progress', progress })
    }
    send({ type: 'left', waiting: await actions.leave({ now: query.has('now'), onProgress }) })
  })
}

async function sync({ actions, query, response }: ControlCall): Promise<void> {
  const name = query.get('name')
  await answerInLines<SyncEvent>(response, asRefused, async (send) => {
    const onProgress = (waiting: number): void => {
      send({ type: 'progress', waiting })
    }
    const { left, beingWritten } = await actions.sync({
      ...(name === null ? {} : { name }),
      onProgress,
    })
    send({ type: 'synced', left: [...left], beingWritten: [...beingWritten] })
  })
}

async function warmUp({ actions, query, response, signal }: ControlCall): Promise<void> {
  await answerInLines<WarmUpEvent>(response, asRefused, async (send) => {
    const onProgress = (progress: WireWarmUpProgress): void => {
      send({ type: 'progress', progress })
    }
    const done = await actions.warmUp(query.getAll('name'), { onProgress, signal })
    send({ type: 'warm', ...done })
  })
}

async function verify({ actions, response, signal }: ControlCall): Promise<void> {
  await answerInLines<VerifyEvent>(response, asRefused, async (send) => {
    const onProgress = (checked: number): void => {
      send({ type: 'progress', checked })
    }
    send({ type: 'verified', report: await actions.verifyCache({ onProgress, signal }) })
  })
}

async function trace({ actions, query, response, signal, closing }: ControlCall): Promise<void> {
  const until = AbortSignal.any([signal, closing])
  const batches = actions.trace(fromTraceQuery(query), until)
  const cutOff = (): void => {
    const timer = setTimeout(() => response.destroy(), LAST_LINES_MS)
    response.once('close', () => {
      clearTimeout(timer)
    })
  }
  closing.addEventListener('abort', cutOff, { once: true, signal })
  beginLines(response)
  await pipeline(traceLines(batches), response)
}

async function* traceLines(batches: AsyncIterable<readonly TraceEvent[]>): AsyncGenerator<string> {
  const left: TraceEvent = { type: 'left' }
  for await (const batch of batches) yield batch.map(toLine).join('')
  yield toLine(left)
}

function asRefused(refusal: Refusal): { type: 'refused' } & Refusal {
  return { type: 'refused', ...refusal }
}

/** Answers with one line of JSON for each event; a DriveError is the last of them. */
async function answerInLines<Event>(
  response: ServerResponse,
  asEvent: (refusal: Refusal) => Event,
  task: (send: (event: Event) => void) => Promise<void>,
): Promise<void> {
  const send = (event: Event): void => {
    response.write(toLine(event))
  }
  beginLines(response)
  try {
    await task(send)
  } catch (error) {
    if (!(error instanceof DriveError)) throw error
    send(asEvent(refusalOf(error)))
  }
  await end(response)
}

function beginLines(response: ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/x-ndjson', connection: 'close' })
  // The client tells by it that this process does not hang.
  response.flushHeaders()
}

function toLine(event: unknown): string {
  return `${JSON.stringify(event)}\n`
}

async function sendJson(response: ServerResponse, value: unknown, status = 200): Promise<void> {
  response.writeHead(status, { 'content-type': 'application/json', connection: 'close' })
  response.write(JSON.stringify(value))
  await end(response)
}

function end(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => response.end(resolve))
}

function refusalOf({ code, message, facts }: DriveError): Refusal {
  return { code, message, ...(facts.hint === undefined ? {} : { hint: facts.hint }) }
}

function statusOf(code: DriveErrorCode): number {
  if (code === 'not-found') return 404
  return code === 'busy' ? 409 : 500
}
