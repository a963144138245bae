import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { onTestFinished } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import { DriveError } from '../../../src/domain/errors.ts'
import type { Logger } from '../../../src/domain/logger.ts'
import type { StorageService, UploadSource } from '../../../src/service/storage-service.ts'
import { createHttpService, type HttpServiceSettings } from '../../../src/service/http-service.ts'

export const TOKEN = 'tok-5f2b9c+/=61d0aa'

export interface Received {
  readonly method: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
  readonly body: Buffer
}

export interface TestServer {
  readonly url: string
  readonly server: http.Server
  /** Requests that came whole. */
  readonly received: readonly Received[]
}

/** Answers a request that came whole; `turn` counts from 0. */
export type Script = (received: Received, response: http.ServerResponse, turn: number) => void

/** A server that reads each request to its end and lets the script answer. */
export async function scripted(script: Script): Promise<TestServer> {
  const received: Received[] = []
  const { url, server } = await listening((request, response) => {
    const chunks: Buffer[] = []
    request.on('error', () => undefined)
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { method = '', url: target = '', headers } = request
      const one = { method, path: target, headers, body: Buffer.concat(chunks) }
      script(one, response, received.push(one) - 1)
    })
  })
  return { url, server, received }
}

/** A server on 127.0.0.1 that is gone when the test is. */
export async function listening(
  listener: http.RequestListener,
): Promise<{ url: string; server: http.Server }> {
  const server = http.createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server }
}

export function json(response: http.ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
}

export function detail(field: string): unknown {
  return { detail: [{ loc: ['body', field], msg: 'field required', type: 'validation_error' }] }
}

export interface LogLine {
  readonly level: string
  readonly fields: Readonly<Record<string, unknown>>
  readonly message: string
}

export function recordingLog(): Logger & { readonly lines: LogLine[] } {
  const lines: LogLine[] = []
  const at =
    (level: string) =>
    (fields: Readonly<Record<string, unknown>>, message: string): void => {
      lines.push({ level, fields, message })
    }
  return { lines, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

/** A service with quick repeats, closed when the test is over. */
export function serviceFor(
  baseUrl: string,
  settings: Partial<HttpServiceSettings> = {},
  log: Logger = recordingLog(),
): StorageService {
  const service = createHttpService(
    { log, clock: systemClock },
    { baseUrl, token: TOKEN, retryBaseMs: 1, ...settings },
  )
  onTestFinished(() => service.close())
  return service
}

/** A file on disk, ready to be uploaded, gone when the test is. */
export async function fileToUpload(
  content: Buffer | string,
  over: Partial<UploadSource> = {},
): Promise<UploadSource> {
  const directory = await mkdtemp(path.join(tmpdir(), 'bagfs-service-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const file = path.join(directory, 'content')
  await writeFile(file, content)
  const length = Buffer.byteLength(content)
  return { path: file, length, name: 'report.txt', description: 'about', ...over }
}

/** The DriveError that a promise rejects with; anything else fails the test. */
export async function failureOf(promise: Promise<unknown>): Promise<DriveError> {
  const outcome: unknown = await promise.then(
    () => new Error('It resolved.'),
    (error: unknown) => error,
  )
  if (outcome instanceof DriveError) return outcome
  throw outcome
}

export async function bytesOf(body: AsyncIterable<unknown>): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of body) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
