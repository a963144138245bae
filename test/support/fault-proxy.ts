import http from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { LaggingListing } from './lagging-listing.ts'
import { ZippedListing } from './zipped-listing.ts'
import { seededRandom } from './seed.ts'

/** What goes wrong with a request. Several may be given; each acts where it can. */
export interface Fault {
  /** Waits before anything else. */
  readonly latencyMs?: number
  /** Called and awaited before the request goes on. */
  readonly before?: () => Promise<unknown>
  /** Answers without asking the service; the request is read first. */
  readonly answer?: {
    readonly status: number
    readonly headers?: Readonly<Record<string, string>>
    readonly body?: string
  }
  /** Answers 200 with a web page. */
  readonly html?: boolean
  /** Never answers, and does not ask the service. */
  readonly silence?: boolean
  /** Breaks both connections after so many bytes of the request's body. */
  readonly cutRequestAfter?: number
  /** Calls `act` at a moment of the request's way, and breaks the connection to the client. */
  readonly at?: {
    /** A part of the body is at the service; all of it is; the service has answered. */
    readonly moment: 'sending' | 'sent' | 'answered'
    readonly act: () => void
  }
  /** Lets the service do the work, then breaks the connection instead of answering. */
  readonly loseAnswer?: boolean
  /** Lets the service do the work, and passes its answer on that much later. */
  readonly answerLatencyMs?: number
  /** Breaks the connection after so many bytes of the answer's body. */
  readonly cutResponseAfter?: number
  /** Sends so many bytes of the answer's body and then nothing. */
  readonly stallResponseAfter?: number
  /** Passes the answer's body on at this pace, as a line does. */
  readonly bytesPerSecond?: number
  /** Added to the Content-Length of the answer; the body stays. */
  readonly wrongLength?: number
  /** Knows no ranges: hides `Range` from the service, `Accept-Ranges` from the client. */
  readonly noRanges?: boolean
  /** Sends the answer chunked, without Content-Length. */
  readonly noLength?: boolean
  /** Sends the answer with neither length nor chunks: it ends with the connection, after so many bytes. */
  readonly endsWithConnection?: { readonly after: number }
  /** Answers 200 without a length and without an end, at this pace. */
  readonly endless?: { readonly bytesPerSecond: number }
  /** Set in the head of the answer; an empty one is taken away. */
  readonly headers?: Readonly<Record<string, string>>
  /** The answer's body has another byte at this offset; its length is right. */
  readonly wrongByteAt?: number
}

export interface FaultRule {
  readonly match?: { readonly method?: string; readonly path?: RegExp }
  /** Matching requests that pass unharmed first. */
  readonly skip?: number
  /** Requests that are harmed; all when undefined. */
  readonly times?: number
  /** Chance of harm, drawn from a generator with `seed`, so that a run can be repeated. */
  readonly probability?: number
  readonly seed?: number
  readonly fault: Fault
}

/** A request as it came to the proxy. */
export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly headers: http.IncomingHttpHeaders
  /** Bytes of the body that arrived so far. */
  bodyBytes: number
  /** Bytes of the answer's body that the service sent so far. */
  answerBytes: number
  /** The client went before it had the whole answer. */
  isCut: boolean
  /** The answer is through, or never will be. */
  isOver: boolean
  /** The fault that it met. */
  readonly fault: Fault | undefined
}

export interface FaultProxy {
  readonly url: string
  readonly requests: readonly SeenRequest[]
  /** Adds a rule (the first that matches acts); returns the function that takes it away. */
  add(rule: FaultRule): () => void
  clear(): void
  /** From now on the listing shows a change that much later; for accounts that only this proxy changes. */
  lagListing(ms: number): void
  /** True when the listing shows all changes that were made. */
  listsAll(): boolean
  /** From now on the listing calls each folder NAME.zip. */
  zipFolders(): void
  /** Refuses connections and breaks those that are open; the port stays ours to take again. */
  down(): Promise<void>
  up(): Promise<void>
  close(): Promise<void>
}

/** A real HTTP proxy before `target` on 127.0.0.1 that harms requests by rules. */
export async function startFaultProxy(
  target: string,
  rules: readonly FaultRule[] = [],
): Promise<FaultProxy> {
  const agent = new http.Agent({ keepAlive: true })
  const sockets = new Set<Socket>()
  const requests: SeenRequest[] = []
  let active = rules.map(activate)
  let lagging: LaggingListing | undefined
  let zipped: ZippedListing | undefined
  const server = http.createServer((request, response) => {
    const fault = active.find((rule) => rule.takes(request))?.rule.fault
    const seen = record(request, fault)
    requests.push(seen)
    response.once('close', () => {
      seen.isCut = !response.writableEnded
      seen.isOver = true
    })
    const isToNote = lagging !== undefined && request.method !== 'GET'
    const changed = async (): Promise<void> => {
      if (isToNote) await lagging?.note(request)
    }
    if (zipped !== undefined && isListing(request) && fault === undefined) {
      zipped.answer(request, response).catch(() => request.socket.destroy())
      return
    }
    if (lagging?.isAskedBy(request) === true && fault === undefined) {
      lagging.answer(request, response).catch(() => request.socket.destroy())
      return
    }
    const passage = { target: new URL(target), agent, request, response, seen, changed, isToNote }
    serve({ ...passage, fault: fault ?? {} })
  })
  server.requestTimeout = 0
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('error', () => socket.destroy())
    socket.once('close', () => sockets.delete(socket))
  })
  await listen(server, 0)
  const { port } = server.address() as AddressInfo

  const down = async (): Promise<void> => {
    if (!server.listening) return
    const closed = new Promise((resolve) => server.close(resolve))
    for (const socket of sockets) socket.destroy()
    await closed
  }
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    add: (rule) => {
      const added = activate(rule)
      active.push(added)
      return () => {
        active = active.filter((other) => other !== added)
      }
    },
    clear: () => {
      active = []
    },
    lagListing: (ms) => {
      lagging = new LaggingListing(target, ms)
    },
    listsAll: () => lagging?.isUpToDate !== false,
    zipFolders: () => {
      zipped = new ZippedListing(target)
    },
    down,
    up: async () => {
      if (!server.listening) await listen(server, port)
    },
    close: async () => {
      await down()
      agent.destroy()
    },
  }
}

function isListing({ url = '' }: http.IncomingMessage): boolean {
  return url.endsWith('/files_list')
}

function listen(server: http.Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject)
      resolve()
    })
  })
}

interface ActiveRule {
  readonly rule: FaultRule
  /** Counts the request; true when the rule harms it. */
  takes(request: http.IncomingMessage): boolean
}

function activate(rule: FaultRule): ActiveRule {
  const random = seededRandom(rule.seed ?? 1)
  let skip = rule.skip ?? 0
  let times = rule.times ?? Infinity
  const matches = ({ method, url }: http.IncomingMessage): boolean =>
    (rule.match?.method === undefined || rule.match.method === method) &&
    (rule.match?.path === undefined || rule.match.path.test(url ?? ''))
  return {
    rule,
    takes: (request) => {
      if (times <= 0 || !matches(request)) return false
      if (skip > 0) {
        skip -= 1
        return false
      }
      if (rule.probability !== undefined && random() >= rule.probability) return false
      times -= 1
      return true
    },
  }
}

function record(request: http.IncomingMessage, fault: Fault | undefined): SeenRequest {
  const { method = '', url: path = '', headers } = request
  const begun = { bodyBytes: 0, answerBytes: 0, isCut: false, isOver: false }
  return { method, path, headers, fault, ...begun }
}

interface Passage {
  readonly target: URL
  readonly agent: http.Agent
  readonly request: http.IncomingMessage
  readonly response: http.ServerResponse
  readonly fault: Fault
  readonly seen: SeenRequest
  /** Awaited when the service has answered, before a client hears of it. */
  readonly changed: () => Promise<void>
  /** True for a change that the listing is to show later: it is waited for, although the client has gone. */
  readonly isToNote: boolean
}

/** Less than any form of an upload has. */
const PART_BYTES = 60

const PAGE = '<!doctype html><html><head><title>Welcome</title></head><body>Hello.</body></html>'

function serve(passage: Passage): void {
  const { fault, request } = passage
  if (fault.latencyMs !== undefined) {
    const { latencyMs, ...rest } = fault
    const timer = setTimeout(() => {
      serve({ ...passage, fault: rest })
    }, latencyMs)
    passage.response.once('close', () => {
      clearTimeout(timer)
    })
    return
  }
  if (fault.before !== undefined) {
    const { before, ...rest } = fault
    before().then(
      () => {
        serve({ ...passage, fault: rest })
      },
      () => request.socket.destroy(),
    )
    return
  }
  if (fault.endless !== undefined) {
    answerForEver(passage.response, fault.endless.bytesPerSecond)
    return
  }
  const answer = fault.html === true ? pageAnswer() : fault.answer
  if (answer === undefined && fault.silence !== true) {
    forward(passage)
    return
  }
  request.on('data', (chunk: Buffer) => (passage.seen.bodyBytes += chunk.length))
  if (answer === undefined) return
  request.on('end', () => {
    passage.response.writeHead(answer.status, answer.headers).end(answer.body ?? '')
  })
}

function pageAnswer(): NonNullable<Fault['answer']> {
  return { status: 200, headers: { 'content-type': 'text/html; charset=utf-8' }, body: PAGE }
}

const TICK_MS = 20

function answerForEver(response: http.ServerResponse, bytesPerSecond: number): void {
  const piece = Buffer.alloc(Math.max(1, (bytesPerSecond * TICK_MS) / 1000), 'endless ')
  response.writeHead(200, { 'content-type': 'application/octet-stream' })
  const timer = setInterval(() => {
    if (!response.writableNeedDrain) response.write(piece)
  }, TICK_MS)
  response.once('close', () => {
    clearInterval(timer)
  })
}

function forward(passage: Passage): void {
  const { target, agent, request, response, fault, seen, changed, isToNote } = passage
  const headers = { ...request.headers, host: target.host }
  if (fault.noRanges === true) delete headers.range
  const { method } = request
  const path = target.pathname.replace(/\/$/, '') + (request.url ?? '')
  const { hostname, port } = target
  const onward = http.request({ hostname, port, method, path, headers, agent })
  const breakClient = (): void => {
    request.socket.destroy()
  }
  const actAt = (moment: NonNullable<Fault['at']>['moment']): boolean => {
    if (fault.at?.moment !== moment) return false
    fault.at.act()
    breakClient()
    return true
  }
  const cutAfter = fault.at?.moment === 'sending' ? PART_BYTES : (fault.cutRequestAfter ?? Infinity)
  onward.on('error', breakClient)
  response.on('close', () => {
    if (!isToNote || !request.complete) onward.destroy()
  })
  request.on('data', (chunk: Buffer) => {
    seen.bodyBytes += chunk.length
    const surplus = seen.bodyBytes - cutAfter
    if (surplus >= 0) {
      onward.write(chunk.subarray(0, chunk.length - surplus), () => {
        if (!actAt('sending')) onward.destroy()
      })
      if (fault.at === undefined) breakClient()
      else request.pause()
      return
    }
    if (!onward.write(chunk)) {
      request.pause()
      onward.once('drain', () => request.resume())
    }
  })
  request.on('end', () => {
    onward.end(() => actAt('sent'))
  })
  onward.on('response', (answer) => {
    answer.on('error', breakClient)
    if (actAt('answered')) return
    if (fault.loseAnswer === true) {
      changed().finally(breakClient).catch(breakClient)
      answer.resume()
      return
    }
    const passOn = (): void => {
      if (response.destroyed) {
        answer.resume()
        return
      }
      if (fault.endsWithConnection !== undefined) {
        response.useChunkedEncodingByDefault = false
        response.shouldKeepAlive = false
      }
      response.writeHead(answer.statusCode ?? 502, harmedHeaders(answer.headers, fault))
      response.flushHeaders()
      answer.on('data', (chunk: Buffer) => (seen.answerBytes += chunk.length))
      relay(answer, response, fault, () => {
        request.socket.destroySoon()
      })
    }
    changed().then(() => {
      if (fault.answerLatencyMs === undefined) passOn()
      else setTimeout(passOn, fault.answerLatencyMs)
    }, breakClient)
  })
}

function harmedHeaders(
  original: http.IncomingHttpHeaders,
  { noRanges, noLength, wrongLength, endsWithConnection, headers: changed = {} }: Fault,
): http.OutgoingHttpHeaders {
  const kept = Object.entries({ ...original, ...changed }).filter(([, value]) => value !== '')
  const headers: http.OutgoingHttpHeaders = Object.fromEntries(kept)
  // These are between two neighbours; this proxy has its own.
  delete headers.connection
  delete headers['transfer-encoding']
  if (noRanges === true) delete headers['accept-ranges']
  if (noLength === true || endsWithConnection !== undefined) delete headers['content-length']
  const length = headers['content-length']
  if (wrongLength === undefined || length === undefined) return headers
  return { ...headers, 'content-length': String(Math.max(0, Number(length) + wrongLength)) }
}

/** Passes the answer's body on, as far as the fault lets it; `endClient` ends the connection after what was written. */
function relay(
  answer: http.IncomingMessage,
  response: http.ServerResponse,
  fault: Fault,
  endClient: () => void,
): void {
  const { cutResponseAfter, stallResponseAfter = Infinity, endsWithConnection } = fault
  const cutAfter = Math.min(cutResponseAfter ?? Infinity, endsWithConnection?.after ?? Infinity)
  const limit = Math.min(cutAfter, stallResponseAfter)
  const isCut = limit === cutAfter
  let left = limit
  let passed = 0
  const stop = (): void => {
    answer.removeAllListeners('data').removeAllListeners('end').resume()
    if (isCut) endClient()
  }
  if (left === 0) {
    stop()
    return
  }
  answer.on('data', (chunk: Buffer) => {
    const part = chunk.subarray(0, Math.min(left, chunk.length))
    const wrongAt = (fault.wrongByteAt ?? Infinity) - passed
    if (wrongAt >= 0 && wrongAt < part.length) part.writeUInt8(part.readUInt8(wrongAt) ^ 1, wrongAt)
    passed += part.length
    left -= part.length
    const hasRoom = response.write(part)
    if (left <= 0) {
      stop()
    } else if (fault.bytesPerSecond !== undefined) {
      answer.pause()
      setTimeout(() => answer.resume(), (1000 * part.length) / fault.bytesPerSecond)
    } else if (!hasRoom) {
      answer.pause()
      response.once('drain', () => answer.resume())
    }
  })
  answer.on('end', () => {
    // With a length that is wrong the connection is of no further use: its end is the only end.
    if (fault.wrongLength === undefined) response.end()
    else endClient()
  })
}
