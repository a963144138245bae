import { request, type IncomingMessage } from 'node:http'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { z } from 'zod'
import { DriveError, systemErrorCode, type DriveErrorCode } from '../domain/errors.ts'
import {
  driveStatus,
  explanation,
  leavingEvent,
  outboxItem,
  pin,
  refreshed,
  refusal,
  syncEvent,
  traceEvent,
  trashItem,
  unpinned,
  verifyEvent,
  warmUpEvent,
  type DriveStatus,
  type LeavingEvent,
  type LeavingProgress,
  type Synced,
  type TraceEvent,
  type TraceFilter,
  type WireExplanation,
  type WireItem,
  type WirePin,
  type WireReport,
  type WireTrashItem,
  type WireWarmedUp,
  type WireWarmUpProgress,
} from './protocol.ts'
import { toTraceQuery } from './trace-query.ts'

/** How a drive left: with so many changes kept for the next mount, by ending before it said, or not asked at all. */
export type LeaveAnswer = { readonly kept: number } | 'ended' | 'dead'

/** A drive that lives tells its status at once; one that reads a huge listing takes a moment. */
const ANSWER_LIMIT_MS = 10_000

/**
 * Asks a running drive to leave and waits until it has; `dead` when no process answers at the socket.
 * Rejects `busy`, and `timed-out` when its process hangs.
 */
export async function askToLeave(
  socketPath: string,
  options: { readonly now: boolean; readonly onProgress: (progress: LeavingProgress) => void },
): Promise<LeaveAnswer> {
  try {
    const path = options.now ? '/leave?now' : '/leave'
    for await (const event of eventsOf(socketPath, path, leavingEvent)) {
      if (event.type === 'left') return { kept: event.waiting }
      if (event.type === 'progress') options.onProgress(event.progress)
      if (event.type === 'busy') throw busy(event)
    }
    return 'ended'
  } catch (error) {
    if (systemErrorCode(error) === 'ECONNRESET') return 'ended'
    if (isDead(error)) return 'dead'
    throw error
  }
}

function busy(event: Extract<LeavingEvent, { type: 'busy' }>): DriveError {
  return new DriveError('busy', event.message, event.hint === undefined ? {} : { hint: event.hint })
}

/**
 * Undefined when the drive is dead. Rejects `timed-out` when its process hangs, `bad-answer` when it is of
 * another version.
 */
export async function askStatus(
  socketPath: string,
  limitMs = ANSWER_LIMIT_MS,
): Promise<DriveStatus | undefined> {
  const signal = AbortSignal.timeout(limitMs)
  try {
    const answer = await ask(socketPath, { method: 'GET', path: '/status', signal })
    return understood(socketPath, driveStatus, await text(answer))
  } catch (error) {
    if (signal.aborted) throw silent(socketPath, error)
    if (isDead(error)) return undefined
    throw error
  }
}

/** Rejects `bad-answer` for anything but JSON of this form. */
function understood<Schema extends z.ZodType>(
  socketPath: string,
  schema: Schema,
  answer: string,
): z.infer<Schema> {
  const { data } = schema.safeParse(jsonOf(answer))
  if (data !== undefined) return data
  throw new DriveError(
    'bad-answer',
    `The drive that listens at ${socketPath} is of another version.`,
    { hint: 'Unmount it and mount it again.' },
  )
}

function jsonOf(answer: string): unknown {
  try {
    return JSON.parse(answer) as unknown
  } catch {
    return undefined
  }
}

function silent(socketPath: string, cause: unknown): DriveError {
  return new DriveError('timed-out', `The drive that listens at ${socketPath} does not answer.`, {
    cause,
    hint: 'Its process hangs: see its log, or end it and mount again.',
  })
}

/** What is at a path of the drive, by its names from the root. */
export async function askToExplain(
  socketPath: string,
  names: readonly string[],
): Promise<WireExplanation> {
  const path = `/explain?${queryOf('name', names)}`
  return answerOf(socketPath, { method: 'GET', path }, explanation)
}

/** The figures of a drive as Prometheus reads them. */
export async function askMetrics(socketPath: string): Promise<string> {
  return text(
    await begunWithin(socketPath, (signal) =>
      ask(socketPath, { method: 'GET', path: '/metrics', signal }),
    ),
  )
}

/** Waits until the service has what was closed under `name`, or all. */
export async function askToSync(
  socketPath: string,
  options: { readonly name?: string; readonly onProgress: (waiting: number) => void },
): Promise<Synced> {
  const { name } = options
  const query = name === undefined ? '' : `?${new URLSearchParams({ name }).toString()}`
  try {
    for await (const event of eventsOf(socketPath, `/sync${query}`, syncEvent)) {
      if (event.type === 'synced') return event
      if (event.type === 'refused') throw toError(event)
      options.onProgress(event.waiting)
    }
  } catch (error) {
    if (!isDead(error)) throw error
  }
  throw left()
}

/** Fetches what is at a path into the cache; ends as soon as the signal is aborted. */
export async function askToWarmUp(
  socketPath: string,
  names: readonly string[],
  options: {
    readonly onProgress: (progress: WireWarmUpProgress) => void
    readonly signal: AbortSignal
  },
): Promise<WireWarmedUp> {
  const { onProgress, signal } = options
  const path = `/warmup?${queryOf('name', names)}`
  try {
    for await (const event of eventsOf(socketPath, path, warmUpEvent, signal)) {
      if (event.type === 'warm') return event
      if (event.type === 'refused') throw toError(event)
      onProgress(event.progress)
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason
    if (!isDead(error)) throw error
  }
  throw left()
}

/**
 * What a drive does from now on, until it leaves or the signal is aborted. Rejects `unavailable` when it ends without
 * leaving.
 */
export async function* askToTrace(
  socketPath: string,
  filter: TraceFilter,
  signal: AbortSignal,
): AsyncGenerator<TraceEvent> {
  try {
    for await (const event of eventsOf(
      socketPath,
      `/trace?${toTraceQuery(filter)}`,
      traceEvent,
      signal,
    )) {
      yield event
      if (event.type === 'left') return
    }
  } catch (error) {
    if (signal.aborted) return
    if (!isDead(error)) throw error
  }
  if (!signal.aborted) throw left('The process of the drive has ended.')
}

/** Keeps what is at a path on this machine. Answers what was pinned: a folder as a whole. */
export async function askToPin(socketPath: string, names: readonly string[]): Promise<WirePin> {
  const path = `/pin?${queryOf('name', names)}`
  return answerOf(socketPath, { method: 'POST', path }, pin)
}

/** Answers the name that was pinned. */
export async function askToUnpin(socketPath: string, names: readonly string[]): Promise<string> {
  const path = `/unpin?${queryOf('name', names)}`
  return (await answerOf(socketPath, { method: 'POST', path }, unpinned)).name
}

/** Has the listing asked for now; resolves with the number of bags. */
export async function askToRefresh(socketPath: string): Promise<number> {
  return (await answerOf(socketPath, { method: 'POST', path: '/refresh' }, refreshed)).records
}

export async function askToVerify(
  socketPath: string,
  onProgress: (checked: number) => void,
): Promise<WireReport> {
  for await (const event of eventsOf(socketPath, '/cache/verify', verifyEvent)) {
    if (event.type === 'verified') return event.report
    if (event.type === 'refused') throw toError(event)
    onProgress(event.checked)
  }
  throw left()
}

export async function askToClearCache(socketPath: string): Promise<void> {
  await answerOf(socketPath, { method: 'POST', path: '/cache/clear' }, z.unknown())
}

/** Answers the changes that it did this to; all when no ids are given to `retry`. */
export async function askOutbox(
  socketPath: string,
  what: 'retry' | 'discard',
  ids: readonly string[],
): Promise<readonly WireItem[]> {
  const path = `/outbox/items/${what}`
  return answerOf(socketPath, { method: 'POST', path, body: { ids } }, z.array(outboxItem))
}

export async function askContent(socketPath: string, id: string): Promise<IncomingMessage> {
  return ask(socketPath, { method: 'POST', path: '/outbox/items/content', body: { id } })
}

/** What was deleted or replaced, the newest first. */
export async function askTrash(socketPath: string): Promise<readonly WireTrashItem[]> {
  const answer = await answerSoonOf(socketPath, '/trash')
  return understood(socketPath, z.array(trashItem), answer)
}

/** Resolves when it is as safe as the mode of the drive promises. */
export async function askToRestore(
  socketPath: string,
  wanted: string,
  options: { readonly name?: string; readonly replace: boolean },
): Promise<WireTrashItem> {
  const body = { id: wanted, ...options }
  return answerOf(socketPath, { method: 'POST', path: '/trash/items/restore', body }, trashItem)
}

/** Answers what is gone for good. */
export async function askToEmptyTrash(
  socketPath: string,
  ids: readonly string[],
): Promise<readonly WireTrashItem[]> {
  const question = { method: 'POST', path: '/trash/items/empty', body: { ids } } as const
  return answerOf(socketPath, question, z.array(trashItem))
}

/** A query that gives one key several times. */
function queryOf(key: string, values: readonly string[]): string {
  return new URLSearchParams(values.map((value): [string, string] => [key, value])).toString()
}

async function* eventsOf<Schema extends z.ZodType>(
  socketPath: string,
  path: string,
  schema: Schema,
  stop?: AbortSignal,
): AsyncGenerator<z.infer<Schema>> {
  const answer = await begunWithin(socketPath, (silence) =>
    ask(socketPath, {
      ...{ method: 'POST', path },
      signal: stop === undefined ? silence : AbortSignal.any([silence, stop]),
    }),
  )
  for await (const line of createInterface({ input: answer })) {
    yield understood(socketPath, schema, line)
  }
}

/** A drive begins its answer at once, however long the rest takes: rejects `timed-out` when its process hangs. */
async function begunWithin(
  socketPath: string,
  task: (signal: AbortSignal) => Promise<IncomingMessage>,
): Promise<IncomingMessage> {
  const silence = new AbortController()
  const timer = setTimeout(() => {
    silence.abort()
  }, ANSWER_LIMIT_MS)
  try {
    return await task(silence.signal)
  } catch (error) {
    throw silence.signal.aborted ? silent(socketPath, error) : error
  } finally {
    clearTimeout(timer)
  }
}

/** The whole answer; rejects `unavailable` where the drive ends before it has told all of it. */
async function answerOf<Schema extends z.ZodType>(
  socketPath: string,
  question: Question,
  schema: Schema,
): Promise<z.infer<Schema>> {
  try {
    return understood(socketPath, schema, await text(await ask(socketPath, question)))
  } catch (error) {
    throw isDead(error) ? left() : error
  }
}

/** As `answerOf`, of what a drive that lives tells at once. */
async function answerSoonOf(socketPath: string, path: string): Promise<string> {
  try {
    const asked = (signal: AbortSignal) => ask(socketPath, { method: 'GET', path, signal })
    return await text(await begunWithin(socketPath, asked))
  } catch (error) {
    throw isDead(error) ? left() : error
  }
}

/** What is asked of a drive; ids go into the body, which may be long. */
interface Question {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: unknown
  readonly signal?: AbortSignal
}

/** The head of the answer; rejects with the drive's own error when it refuses. */
async function ask(socketPath: string, question: Question): Promise<IncomingMessage> {
  const { body, ...rest } = question
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const asking = request({ socketPath, ...rest }, resolve).once('error', reject)
    if (body === undefined) asking.end()
    else asking.setHeader('content-type', 'application/json').end(JSON.stringify(body))
  })
  if (answer.statusCode === 200) return answer
  throw toError(understood(socketPath, refusal, await text(answer)))
}

function toError({ code, message, hint }: z.infer<typeof refusal>): DriveError {
  // A code of another version is only shown.
  return new DriveError(code as DriveErrorCode, message, hint === undefined ? {} : { hint })
}

function left(sentence = 'The drive ended before it answered.'): DriveError {
  return new DriveError('unavailable', sentence, {
    hint: 'Its log tells why. Mount it again: it goes on with what is not sent yet.',
  })
}

/** `EPIPE` is what a long body meets. */
const GONE_CODES: ReadonlySet<string> = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE'])

/** True when the process behind a socket is gone. */
export function isDead(error: unknown): boolean {
  const code = systemErrorCode(error)
  return code !== undefined && GONE_CODES.has(code)
}
