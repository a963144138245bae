import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import type { ClientRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { startLocalService } from '../../../src/local-service/server.ts'
import type { LocalServiceSettings, ServiceEvent } from '../../../src/local-service/server.ts'

export const TOKEN = 'token-one'
export const BOUNDARY = 'a-boundary-7f3c'

export interface Part {
  readonly name: string
  /** Of a file part, put into the header byte for byte. */
  readonly filename?: string
  readonly content: string | Buffer
  /** Replaces the whole Content-Disposition header. */
  readonly disposition?: string
}

/** A multipart body with raw UTF-8 headers; `cutEnd` leaves the closing boundary out. */
export function multipartBody(parts: readonly Part[], cutEnd = false): Buffer {
  const pieces = parts.flatMap((part) => {
    const filename = part.filename === undefined ? '' : `; filename="${part.filename}"`
    const disposition = part.disposition ?? `form-data; name="${part.name}"${filename}`
    const head = `--${BOUNDARY}\r\nContent-Disposition: ${disposition}\r\n\r\n`
    return [Buffer.from(head), Buffer.from(part.content as string), Buffer.from('\r\n')]
  })
  return Buffer.concat([...pieces, Buffer.from(cutEnd ? '' : `--${BOUNDARY}--\r\n`)])
}

export const MULTIPART = { 'content-type': `multipart/form-data; boundary=${BOUNDARY}` }

export async function makeTempDir(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'bagfs-local-service-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

/** Every file under a data directory but those of its lock, as paths relative to it. */
export async function filesUnder(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(path.length + 1))
    .filter((file) => !/^lock(\.db\/|$)/.test(file))
    .sort()
}

/** A running service and short ways to ask it. */
export class Fixture {
  readonly dataDir: string
  readonly events: ServiceEvent[] = []
  readonly #settings: Partial<LocalServiceSettings>
  url = ''
  close: () => Promise<void> = () => Promise.resolve()

  constructor(dataDir: string, settings: Partial<LocalServiceSettings>) {
    this.dataDir = dataDir
    this.#settings = settings
  }

  async start(changes: Partial<LocalServiceSettings> = {}): Promise<void> {
    const settings = { dataDir: this.dataDir, tokens: [TOKEN], ...this.#settings, ...changes }
    const onRequest = (event: ServiceEvent): void => void this.events.push(event)
    const service = await startLocalService(settings, { log: silentLogger, onRequest })
    this.url = service.url
    this.close = () => service.close()
  }

  async restart(changes: Partial<LocalServiceSettings> = {}): Promise<void> {
    await this.close()
    await this.start(changes)
  }

  ask(path: string, init: RequestInit = {}, token = TOKEN): Promise<Response> {
    const headers = { authorization: `Bearer ${token}`, ...(init.headers as object) }
    return fetch(this.url + path, { ...init, headers })
  }

  send(path: string, parts: readonly Part[], token = TOKEN): Promise<Response> {
    const body = new Uint8Array(multipartBody(parts))
    return this.ask(path, { method: 'POST', headers: MULTIPART, body }, token)
  }

  /** Uploads a file and returns its bag id. */
  async put(
    filename: string,
    content: string | Buffer,
    description = '',
    token = TOKEN,
  ): Promise<string> {
    const parts = [
      { name: 'description', content: description },
      { name: 'file', filename, content },
    ]
    const answer = await this.send('/api/files/upload', parts, token)
    const body = (await answer.json()) as { bag_id: string }
    if (answer.status !== 200) throw new Error(JSON.stringify(body))
    return body.bag_id
  }

  async json(path: string, token = TOKEN): Promise<unknown> {
    return (await this.ask(path, {}, token)).json()
  }

  async list(token = TOKEN): Promise<Record<string, unknown>[]> {
    return (await this.json('/api/user/files_list', token)) as Record<string, unknown>[]
  }

  /** An upload whose body the caller writes by hand. */
  openUpload(headers: Record<string, string> = {}): ClientRequest {
    return httpRequest(`${this.url}/api/files/upload`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}`, ...MULTIPART, ...headers },
    })
  }
}

export async function startFixture(settings: Partial<LocalServiceSettings> = {}): Promise<Fixture> {
  const fixture = new Fixture(settings.dataDir ?? (await makeTempDir()), settings)
  await fixture.start()
  onTestFinished(() => fixture.close())
  return fixture
}
