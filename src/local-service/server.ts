import multipart from '@fastify/multipart'
import Fastify from 'fastify'
import type { FastifyInstance } from 'fastify'
import type { Socket } from 'node:net'
import { systemClock } from '../domain/clock.ts'
import { DriveError, systemErrorCode } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import type { FileRecordWire } from '../service/wire.ts'
import { sendError } from './answers.ts'
import { BagStore } from './bag-store.ts'
import { beginExchange, prepareExchanges, toServiceEvent } from './exchange.ts'
import type { ServiceEvent } from './exchange.ts'
import { addRoutes } from './routes.ts'
import { HostGuard } from '../domain/host-guard.ts'
import { stopReading } from './stop-reading.ts'
import { Tokens, uidOf } from './tokens.ts'

export type { ServiceEvent } from './exchange.ts'

const DEFAULT_HOST = '127.0.0.1'
/** What an account of docs/SERVICE.md may hold for free, in bytes. */
const DEFAULT_CAPACITY_BYTES = 1e9
const KEEP_ALIVE_MS = 75_000
/** Of bodies that are not uploads. */
const BODY_LIMIT_BYTES = 1024 * 1024
/** An upload has two parts, of which the field is kept in memory. */
const FORM_LIMITS = { fields: 8, parts: 16 }

export interface LocalServiceSettings {
  /** Made when missing. One process at a time uses it. */
  readonly dataDir: string
  readonly host?: string
  /** 0 takes any free port. */
  readonly port?: number
  /** Each token is an account of its own; at least one. */
  readonly tokens: readonly string[]
  /** Of each account. */
  readonly capacityBytes?: number
  /**
   * Records to add to every listing as they are, for tests and demonstrations of odd ones (names with
   * NUL, negative sizes). They take no space, and no other endpoint knows them.
   */
  readonly extraRecords?: () => readonly FileRecordWire[]
}

export interface LocalServiceDependencies {
  readonly log: Logger
  /** Called when an answer has been sent, errors included; not when the client left before. */
  readonly onRequest?: (event: ServiceEvent) => void
}

export interface LocalService {
  /** Base URL, `http://127.0.0.1:<port>`. */
  readonly url: string
  /** Cuts every connection, waits for what is being written, and frees the data directory. */
  close(): Promise<void>
}

/**
 * Starts the service of docs/SERVICE.md on this machine, with its bags in a directory (see BagStore).
 * Rejects `usage` (settings), `locked` (another process has the directory), `busy` (the port is
 * taken), `not-permitted`, `local-io`, `local-disk-full`.
 */
export async function startLocalService(
  settings: LocalServiceSettings,
  deps: LocalServiceDependencies,
): Promise<LocalService> {
  refuseBadSettings(settings)
  const store = await BagStore.open(
    { log: deps.log, clock: systemClock },
    {
      dataDir: settings.dataDir,
      capacityBytes: settings.capacityBytes ?? DEFAULT_CAPACITY_BYTES,
      uids: settings.tokens.map(uidOf),
    },
  )
  const app = buildApp(settings, deps, store)
  const close = async (): Promise<void> => {
    await app.close()
    await store.close()
  }
  try {
    return { url: await listen(app, settings), close }
  } catch (error) {
    await close()
    throw error
  }
}

function refuseBadSettings(settings: LocalServiceSettings): void {
  const { tokens, port = 0, capacityBytes = 0 } = settings
  const refuse = (message: string): never => {
    throw new DriveError('usage', message)
  }
  if (settings.dataDir === '') refuse('The data directory has no name.')
  if (tokens.length === 0) refuse('The service needs at least one token.')
  if (tokens.some((token) => !/^[\x21-\x7e]+$/.test(token))) {
    refuse('A token must be one or more visible ASCII characters, without spaces.')
  }
  if (!Number.isInteger(port) || port < 0 || port > 65_535) refuse(`${port} is not a port.`)
  if (!Number.isSafeInteger(capacityBytes) || capacityBytes < 0) {
    refuse(`${capacityBytes} bytes is not a capacity.`)
  }
}

function buildApp(
  settings: LocalServiceSettings,
  deps: LocalServiceDependencies,
  store: BagStore,
): FastifyInstance {
  const { log } = deps
  const app = Fastify({
    logger: false,
    exposeHeadRoutes: false,
    bodyLimit: BODY_LIMIT_BYTES,
    // A large upload over a slow line takes as long as it takes.
    requestTimeout: 0,
    connectionTimeout: 0,
    keepAliveTimeout: KEEP_ALIVE_MS,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: 1024 },
    frameworkErrors: (error, _request, reply) => {
      sendError(reply, error, log)
    },
    clientErrorHandler: answerBadHttp,
  })
  addBodyParsers(app)
  app.setErrorHandler((error, _request, reply) => sendError(reply, error, log))
  app.setNotFoundHandler((request, reply) => {
    const message = `There is no ${request.method} ${request.url.split('?', 1)[0] ?? ''}.`
    return sendError(reply, new DriveError('not-found', message, { fields: ['path'] }), log)
  })
  const guard = new HostGuard(settings.host ?? DEFAULT_HOST)
  addHooks(app, deps, { guard, tokens: new Tokens(settings.tokens) })
  addRoutes(app, { store, extraRecords: settings.extraRecords ?? (() => []) })
  return app
}

function addHooks(
  app: FastifyInstance,
  deps: LocalServiceDependencies,
  { guard, tokens }: { readonly guard: HostGuard; readonly tokens: Tokens },
): void {
  prepareExchanges(app)
  app.addHook('onRequest', (request, _reply, done) => {
    try {
      guard.check(request.headers)
      beginExchange(request, tokens.uidOfRequest(request.headers))
    } catch (error) {
      stopReading(request.raw)
      throw error
    }
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const event = toServiceEvent(request, reply.statusCode)
    deps.log.debug({ ...event }, 'answered')
    deps.onRequest?.(event)
    done()
  })
}

function addBodyParsers(app: FastifyInstance): void {
  app.register(multipart, {
    // What a client calls its file is what the record says, a path included.
    preservePath: true,
    limits: { fileSize: Infinity, fieldSize: BODY_LIMIT_BYTES, ...FORM_LIMITS },
  })
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (_request, body, done) => {
      done(null, Object.fromEntries(new URLSearchParams(body.toString())))
    },
  )
  // A body of another type holds no field that we know: 422 then says which one is missing.
  app.addContentTypeParser('*', (_request, payload, done) => {
    payload.resume()
    done(null, undefined)
  })
}

/** Answers what is not HTTP at all; there is no request to answer to, only a socket. */
function answerBadHttp(_error: Error, socket: Socket): void {
  const detail = [{ loc: ['request'], msg: 'This is not HTTP.', type: 'malformed_request' }]
  const body = JSON.stringify({ detail })
  if (!socket.writable) return
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  )
}

async function listen(app: FastifyInstance, settings: LocalServiceSettings): Promise<string> {
  const host = settings.host ?? DEFAULT_HOST
  const port = settings.port ?? 0
  try {
    return await app.listen({ host, port })
  } catch (error) {
    const code = systemErrorCode(error)
    if (code === 'EADDRINUSE') {
      throw new DriveError('busy', `Port ${port} of ${host} is in use.`, {
        cause: error,
        hint: 'Choose another port, or 0 for any free one.',
      })
    }
    const kind = code === 'EACCES' ? 'not-permitted' : 'local-io'
    throw new DriveError(kind, `Cannot listen on ${host}:${port} (${code ?? 'unknown'}).`, {
      cause: error,
    })
  }
}
