import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'

export type Body = string | Buffer

/** The id of a bag that the account had before the request. */
export type IdOf = (name: string) => string

/** An answer as it goes over the line, byte for byte. What is not given is as in a sound answer. */
export interface HostileAnswer {
  /** The service does what was asked, and answers so all the same; else it does nothing. */
  readonly isDone?: boolean
  /** 200 when undefined. */
  readonly status?: number
  readonly version?: '1.0' | '1.1'
  /** Beside those that tell the length; `application/json` when no content type is given. */
  readonly headers?: Readonly<Record<string, string>>
  /** What goes in place of the sound body, or is made of it. */
  readonly body?: Body | ((sound: Buffer, idOf: IdOf) => Body)
  /** How the client is told where the body ends. */
  readonly end?: 'length' | 'chunks' | 'close'
  /** Of the length of the body, what Content-Length says. */
  readonly statedLength?: (length: number) => number | string
  /** The body comes again and again, without end. */
  readonly isEndless?: boolean
  /** One byte of the body each so many milliseconds. */
  readonly dripMs?: number
  /** So many bytes come at once before those that drip. */
  readonly dripAfter?: number
  /** Closes after so many bytes of the whole answer; with 0 without a word. */
  readonly closeAfter?: number
  /** Not a byte, and the connection stays. */
  readonly silence?: boolean
}

/** The head of an answer with this body, and how its body is written. */
function headOf(answer: HostileAnswer, body: Buffer): string {
  const { status = 200, version = '1.1', end = 'length', statedLength = String } = answer
  const framing = {
    length: [['content-length', String(statedLength(body.length))]],
    chunks: [['transfer-encoding', 'chunked']],
    close: [],
  }[end]
  const headers = { 'content-type': 'application/json', connection: 'close', ...answer.headers }
  const lines = [...Object.entries(headers), ...framing].map(([name, value]) => `${name}: ${value}`)
  const first = `HTTP/${version} ${status} ${STATUS_CODES[status] ?? 'Odd'}`
  return [first, ...lines, '', ''].join('\r\n')
}

/** Writes an answer to the connection and closes it where that belongs to the answer. */
export async function give(
  answer: HostileAnswer,
  socket: Socket,
  sound: { readonly body: Buffer; readonly idOf: IdOf },
): Promise<void> {
  if (answer.silence === true) return
  const { body: harmed = sound.body } = answer
  const made = typeof harmed === 'function' ? harmed(sound.body, sound.idOf) : harmed
  const body = Buffer.from(made)
  const head = headOf(answer, body)
  if (answer.closeAfter !== undefined) {
    const whole = Buffer.concat([Buffer.from(head), body])
    socket.end(whole.subarray(0, answer.closeAfter))
    return
  }
  socket.write(head)
  const isChunked = answer.end === 'chunks'
  for (const part of partsOf(answer, body)) {
    if (part.length > 0 && !(await wrote(socket, isChunked ? chunk(part) : part))) return
    if (answer.dripMs !== undefined) await pause(socket, answer.dripMs)
  }
  if (isChunked) socket.write('0\r\n\r\n')
  // The parser that read the request would wait for an answer of its own before the next.
  socket.end()
}

function* partsOf(answer: HostileAnswer, body: Buffer): Generator<Buffer> {
  const { isEndless, dripMs, dripAfter = 0 } = answer
  const atOnce = dripMs === undefined ? body.length : dripAfter
  do {
    yield body.subarray(0, atOnce)
    for (const byte of body.subarray(atOnce)) yield Buffer.of(byte)
  } while (isEndless === true)
}

function chunk(part: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')])
}

/** False when the client has gone. */
async function wrote(socket: Socket, part: Buffer): Promise<boolean> {
  if (socket.destroyed) return false
  if (socket.write(part)) return true
  await new Promise<void>((resolve) => {
    const done = (): void => {
      socket.off('drain', done).off('close', done)
      resolve()
    }
    socket.once('drain', done).once('close', done)
  })
  return !socket.destroyed
}

/** The pace of a drip, ended by the client's going. */
function pause(socket: Socket, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      socket.off('close', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    socket.once('close', done)
  })
}
