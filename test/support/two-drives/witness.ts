import http from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { Open } from 'unzipper'
import { z } from 'zod'
import { LaggingListing } from '../lagging-listing.ts'
import { History, type Who } from './history.ts'
import { Listings } from './listings.ts'

const deleteBody = z.object({ bag_id: z.string() })
const uploadAnswer = z.object({ bag_id: z.string() })
const listingAnswer = z.array(z.object({ bag_id: z.string() }))

interface Told {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: Buffer
}

/**
 * Stands between both drives and the service and knows all that became of the account. Each drive has a way of its
 * own (`urlOf`). Changes are made one after the other, so that their order is known.
 */
export class Witness {
  readonly history = new History()
  readonly listings = new Listings()
  readonly #target: URL
  readonly #lagging: LaggingListing | undefined
  readonly #agent = new http.Agent({ keepAlive: true })
  readonly #server: http.Server
  readonly #said: string[] = []
  #turn: Promise<unknown> = Promise.resolve()

  private constructor(target: string, lagMs: number) {
    this.#target = new URL(target)
    this.#lagging = lagMs === 0 ? undefined : new LaggingListing(target, lagMs)
    this.#server = http.createServer((request, response) => {
      this.#serve(request, response).catch(() => request.socket.destroy())
    })
  }

  /** With a listing that shows changes so much later than they are made. */
  static async start(target: string, { lagMs }: { readonly lagMs: number }): Promise<Witness> {
    const witness = new Witness(target, lagMs)
    witness.#server.listen(0, '127.0.0.1')
    await once(witness.#server, 'listening')
    return witness
  }

  urlOf(who: Who): string {
    const { port } = this.#server.address() as AddressInfo
    return `http://127.0.0.1:${port}/${who}`
  }

  /** The last requests but downloads, and all changes of names that begin so, with their times. */
  said(prefix: string): readonly string[] {
    const last = this.#said.length - 30
    return this.#said.filter((line, index) => index >= last || line.includes(` ${prefix}`))
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    this.#agent.destroy()
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { url = '', method } = request
    const who: Who = url.startsWith('/A/') ? 'A' : 'B'
    const path = url.slice(2)
    const body = await buffer(request)
    const told = await this.#answer({ who, path, body, request })
    if (method !== 'GET') this.#say(`${who} ${method ?? ''} ${path} answered ${told.status}`)
    const headers = { ...told.headers, 'content-length': told.body.length }
    delete headers.connection
    delete headers['transfer-encoding']
    response.writeHead(told.status, headers).end(told.body)
  }

  #answer(asked: Asked): Promise<Told> {
    const { path, request } = asked
    if (path.endsWith('/files_list')) return this.#list(asked)
    if (request.method === 'GET') return this.#forward(asked)
    const change = this.#turn.then(() => this.#change(asked))
    this.#turn = change.catch(() => undefined)
    return change
  }

  async #list(asked: Asked): Promise<Told> {
    const listed = this.listings.begin(asked.who, performance.now())
    const told =
      this.#lagging === undefined
        ? await this.#forward(asked)
        : jsonAnswer(await this.#lagging.body(asked.request))
    if (told.status !== 200) listed.isLost = true
    else {
      const records = listingAnswer.parse(JSON.parse(told.body.toString()))
      listed.bags = records.map(({ bag_id }) => bag_id)
    }
    this.#say(`${asked.who} listing of ${listed.bags?.length ?? 0} bags`)
    return told
  }

  async #change(asked: Asked): Promise<Told> {
    const upload = asked.request.method === 'DELETE' ? undefined : await readUpload(asked)
    const told = await this.#forward(asked)
    if (told.status !== 200) return told
    if (upload === undefined) this.#noteDelete(asked)
    else this.#noteUpload(asked.who, upload, told)
    await this.#lagging?.note(asked.request)
    return told
  }

  #noteDelete({ who, body }: Asked): void {
    const { bag_id: id } = deleteBody.parse(JSON.parse(body.toString()))
    this.#say(`${who} deleted ${this.history.bag(id)?.name ?? '?'} ${id.slice(0, 8)}`)
    this.history.ended(id, who, performance.now())
  }

  #noteUpload(who: Who, { name, files, length }: Upload, told: Told): void {
    const { bag_id: id } = uploadAnswer.parse(JSON.parse(told.body.toString()))
    this.#say(`${who} stored ${name} ${id.slice(0, 8)} of ${length} bytes`)
    this.history.stored({ id, name, files, storedBy: who, storedAt: performance.now() })
  }

  async #forward({ path, body, request }: Asked): Promise<Told> {
    const { hostname, port } = this.#target
    const headers = { ...request.headers, host: this.#target.host, 'content-length': body.length }
    delete headers.connection
    delete headers['transfer-encoding']
    const onward = http.request({
      ...{ hostname, port, path, headers, agent: this.#agent },
      method: request.method,
    })
    onward.end(body)
    const [answer] = (await once(onward, 'response')) as [http.IncomingMessage]
    const { statusCode: status = 502 } = answer
    return { status, headers: answer.headers, body: await buffer(answer) }
  }

  #say(what: string): void {
    this.#said.push(`${performance.now().toFixed(0)} ${what}`)
  }
}

interface Asked {
  readonly who: Who
  readonly path: string
  readonly body: Buffer
  readonly request: http.IncomingMessage
}

interface Upload {
  readonly name: string
  readonly files: ReadonlyMap<string, string>
  readonly length: number
}

async function readUpload({ path, body, request }: Asked): Promise<Upload> {
  const { name, content } = filePart(body, request.headers['content-type'] ?? '')
  const { length } = content
  if (!path.endsWith('/folders/upload')) {
    return { name, files: new Map([['', content.toString('latin1')]]), length }
  }
  return { name: name.replace(/\.zip$/, ''), files: await filesIn(content), length }
}

/** The file of a form, whose names are plain here. */
function filePart(form: Buffer, type: string): { name: string; content: Buffer } {
  const [, boundary = ''] = /boundary="?([^";]+)/.exec(type) ?? []
  const [head = '', name = ''] =
    /filename="([^"]*)"[\s\S]*?\r\n\r\n/.exec(form.toString('latin1')) ?? []
  const start = form.indexOf(head) + head.length
  const end = form.indexOf(`\r\n--${boundary}`, start)
  if (head === '' || end < 0) throw new Error('An upload has no file.')
  return { name, content: form.subarray(start, end) }
}

function jsonAnswer(text: string): Told {
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(text),
  }
}

async function filesIn(zip: Buffer): Promise<ReadonlyMap<string, string>> {
  const { files } = await Open.buffer(zip)
  const inside = files.filter(({ type }) => type === 'File')
  return new Map(
    await Promise.all(
      inside.map(async (file) => [file.path, (await file.buffer()).toString('latin1')] as const),
    ),
  )
}
