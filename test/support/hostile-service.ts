import { createHash, randomUUID } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { give, type HostileAnswer } from './hostile-answer.ts'

/** The seven endpoints, each by the word that rows use. */
export type Endpoint =
  'upload' | 'folder upload' | 'add by id' | 'download' | 'delete' | 'list' | 'account'

/** What a request asks for: a bag by its id, or an upload by its name. */
export interface Asked {
  readonly endpoint: Endpoint
  readonly bagId: string
  readonly name: string
}

/** A request as it came, and whether it met a hostile answer. */
export interface LoggedRequest extends Asked {
  readonly isHarmed: boolean
}

interface Bag {
  readonly id: string
  readonly name: string
  readonly content: Buffer
  readonly description: string
  readonly uploadedAt: number
  /** A client heard of it: by the answer of its upload, or by a listing. */
  isTold: boolean
}

interface Rule {
  readonly matches: (asked: Asked) => boolean
  readonly answer: HostileAnswer
  times: number
}

interface SoundAnswer {
  readonly status: number
  readonly type: string
  readonly body: Buffer
  readonly headers?: Readonly<Record<string, string>>
}

const CAPACITY = 1e9
const ROUTES: Readonly<Record<string, Endpoint>> = {
  'POST /api/files/upload': 'upload',
  'POST /api/folders/upload': 'folder upload',
  'POST /api/bag/add_by_id': 'add by id',
  'DELETE /api/bag': 'delete',
  'GET /api/user/files_list': 'list',
  'GET /api/user': 'account',
}
const DOWNLOAD = '/api/bag/download/'

/**
 * A service of another make than the embedded one: everything in memory, and sound until it is told
 * to answer one endpoint otherwise. It keeps a log of what it was asked, and of content that was lost.
 */
export class HostileService {
  readonly token = 'hostile-token-0123456789'
  readonly requests: LoggedRequest[] = []
  /** Bags that were deleted while no other bag that a client had heard of held their content. */
  readonly losses: string[] = []
  /** Names whose deletion was wanted. */
  readonly mayLose = new Set<string>()
  readonly #bags = new Map<string, Bag>()
  /** Of other accounts: on the network only. */
  readonly #elsewhere = new Map<string, Bag>()
  readonly #server: http.Server
  readonly #sockets = new Set<Socket>()
  #rules: Rule[] = []

  private constructor() {
    this.#server = http.createServer((request, response) => {
      this.#serve(request, response).catch(() => request.socket.destroy())
    })
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket)
      socket.on('error', () => socket.destroy())
      socket.once('close', () => this.#sockets.delete(socket))
    })
  }

  static async start(): Promise<HostileService> {
    const service = new HostileService()
    await new Promise<void>((resolve) => service.#server.listen(0, '127.0.0.1', resolve))
    return service
  }

  /** How many hostile answers were begun. */
  get harmed(): number {
    return this.requests.filter(({ isHarmed }) => isHarmed).length
  }

  get downloads(): number {
    return this.requests.filter(({ endpoint }) => endpoint === 'download').length
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  /** What another client does. Answers the id. */
  put(name: string, content: string | Buffer): string {
    return this.#store({ name, content: Buffer.from(content), description: '' }).id
  }

  /** A bag that only its id leads to. */
  putElsewhere(name: string, content: string): string {
    const bag = toBag({ name, content: Buffer.from(content), description: '' })
    this.#elsewhere.set(bag.id, bag)
    return bag.id
  }

  /** Takes a bag away, as another client does. */
  forget(bagId: string): void {
    this.#bags.delete(bagId)
  }

  /** Contents under a name, the newest last. */
  contents(name: string): readonly string[] {
    return [...this.#bags.values()]
      .filter((bag) => bag.name === name)
      .map(({ content }) => content.toString())
  }

  /** Answers what matches with this from now on, so often; `well` ends it. */
  harm(answer: HostileAnswer, times: number, matches: (asked: Asked) => boolean): void {
    this.#rules.push({ answer, times, matches })
  }

  well(): void {
    this.#rules = []
    // What still hangs or drips belongs to the hostile time.
    for (const socket of this.#sockets) socket.destroy()
  }

  async #serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const form = formOf(request.headers['content-type'] ?? '', await readAll(request))
    const asked = askedOf(request, form)
    if (asked === undefined) {
      response.writeHead(404).end()
      return
    }
    const rule = this.#rules.find(({ matches, times }) => times > 0 && matches(asked))
    if (rule !== undefined) rule.times -= 1
    this.requests.push({ ...asked, isHarmed: rule !== undefined })
    if (rule === undefined) {
      const sound = this.#do(asked, form, request.headers.range)
      const headers = { 'content-type': sound.type, ...sound.headers }
      response.writeHead(sound.status, headers).end(sound.body, () => {
        this.#told(asked, sound)
      })
      return
    }
    const isRead = ['download', 'list', 'account'].includes(asked.endpoint)
    const isDone = isRead || rule.answer.isDone === true
    const ids = new Map(Array.from(this.#bags.values(), ({ name, id }) => [name, id]))
    const { body: sound } = isDone ? this.#do(asked, form, undefined) : json({})
    await give(rule.answer, request.socket, { body: sound, idOf: (name) => ids.get(name) ?? '' })
  }

  #do(asked: Asked, form: Form, range: string | undefined): SoundAnswer {
    switch (asked.endpoint) {
      case 'upload':
        return json({ bag_id: this.#store(form).id })
      case 'folder upload':
        return json({ bag_id: this.#store({ ...form, name: form.name.replace(/\.zip$/, '') }).id })
      case 'add by id':
        return this.#add(asked.bagId)
      case 'download':
        return this.#download(asked.bagId, range)
      case 'delete':
        return this.#delete(asked.bagId)
      case 'list':
        return json([...this.#bags.values()].map(toRecord))
      case 'account':
        return json({ uid: 'hostile-user', space_left: CAPACITY, capacity: CAPACITY })
    }
  }

  #told({ endpoint }: Asked, { body }: SoundAnswer): void {
    if (endpoint === 'list') for (const bag of this.#bags.values()) bag.isTold = true
    if (!endpoint.endsWith('upload')) return
    const { bag_id } = JSON.parse(body.toString()) as { bag_id: string }
    const bag = this.#bags.get(bag_id)
    if (bag !== undefined) bag.isTold = true
  }

  #store(form: Form): Bag {
    const bag = toBag(form)
    this.#bags.set(bag.id, bag)
    return bag
  }

  #add(bagId: string): SoundAnswer {
    const bag = this.#elsewhere.get(bagId)
    if (bag === undefined) return refusal(404, 'There is no such bag.')
    this.#bags.set(bagId, bag)
    return json({ message: 'Bag added' })
  }

  #download(bagId: string, range: string | undefined): SoundAnswer {
    const bag = this.#bags.get(bagId) ?? this.#elsewhere.get(bagId)
    if (bag === undefined) return refusal(404, 'There is no such bag.')
    const { content } = bag
    const found = { status: 200, type: 'application/octet-stream', body: content }
    const [, from, to] = /^bytes=(\d+)-(\d*)$/.exec(range ?? '') ?? []
    if (from === undefined) return { ...found, headers: { 'accept-ranges': 'bytes' } }
    const part = content.subarray(Number(from), to === '' ? undefined : Number(to) + 1)
    if (part.length === 0) return refusal(416, 'There is no such range.')
    const last = Number(from) + part.length - 1
    const headers = { 'content-range': `bytes ${from}-${last}/${content.length}` }
    return { ...found, status: 206, body: part, headers }
  }

  #delete(bagId: string): SoundAnswer {
    const bag = this.#bags.get(bagId)
    if (bag === undefined) return refusal(404, 'There is no such bag.')
    this.#bags.delete(bagId)
    const isKept = [...this.#bags.values()].some(
      ({ content, isTold }) => isTold && content.includes(bag.content),
    )
    if (!isKept && !this.mayLose.has(bag.name)) this.losses.push(bag.name)
    return json({ success: true })
  }
}

function toBag({ name, content, description }: Form): Bag {
  const id = createHash('sha256').update(randomUUID()).digest('hex')
  return { id, name, content, description, uploadedAt: Date.now() / 1000, isTold: false }
}

function toRecord({ id, name, content, description, uploadedAt }: Bag): object {
  return { filename: name, size: content.length, uploaded_at: uploadedAt, description, bag_id: id }
}

function json(value: unknown): SoundAnswer {
  return { status: 200, type: 'application/json', body: Buffer.from(JSON.stringify(value)) }
}

function refusal(status: number, detail: string): SoundAnswer {
  return { ...json({ detail }), status }
}

async function readAll(request: http.IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

interface Form {
  readonly name: string
  readonly content: Buffer
  readonly description: string
  readonly bagId?: string
}

/** The fields of a request, whichever of the three forms they come in. */
function formOf(type: string, body: Buffer): Form {
  const form = { name: '', content: Buffer.alloc(0), description: '' }
  const boundary = /boundary="?([^";]+)/.exec(type)?.[1]
  if (boundary !== undefined) return { ...form, ...multipart(body, boundary) }
  if (type.startsWith('application/json')) {
    return { ...form, bagId: (JSON.parse(body.toString()) as { bag_id: string }).bag_id }
  }
  return { ...form, bagId: new URLSearchParams(body.toString()).get('bag_id') ?? '' }
}

/** Parts are cut in latin1, where a byte is a character. */
function multipart(body: Buffer, boundary: string): Partial<Form> {
  const form: { name?: string; content?: Buffer; description?: string } = {}
  for (const part of body.toString('latin1').split(`--${boundary}`)) {
    const at = part.indexOf('\r\n\r\n')
    if (at < 0) continue
    const head = Buffer.from(part.slice(0, at), 'latin1').toString()
    const content = Buffer.from(part.slice(at + 4, -2), 'latin1')
    const fileName = /filename="([^"]*)"/.exec(head)?.[1]
    if (fileName === undefined) form.description = content.toString()
    else Object.assign(form, { name: fileName, content })
  }
  return form
}

function askedOf({ method, url = '' }: http.IncomingMessage, form: Form): Asked | undefined {
  const { name, bagId = '' } = form
  if (method === 'GET' && url.startsWith(DOWNLOAD)) {
    return { endpoint: 'download', bagId: decodeURIComponent(url.slice(DOWNLOAD.length)), name: '' }
  }
  const endpoint = ROUTES[`${method ?? ''} ${url}`]
  return endpoint === undefined ? undefined : { endpoint, bagId, name }
}
