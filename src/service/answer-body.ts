import { pipeline, Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import type { Clock } from '../domain/clock.ts'
import { isDriveError, systemErrorCode, type DriveError } from '../domain/errors.ts'
import { encodingOf } from './answer-head.ts'
import { looksLikePage } from './error-body.ts'
import type { Answer } from './exchange.ts'

type Decoder = Transform & { readonly bytesWritten: number }

const DECODERS: Readonly<Record<string, () => Decoder>> = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
}

/** The encodings that `decodedBody` undoes, for `Accept-Encoding`. */
export const ACCEPTED_ENCODINGS = 'gzip, deflate, br'

/** A body without its `Content-Encoding`. */
interface Decoded {
  readonly body: Readable
  /** Bytes that were decoded so far; Infinity when there was nothing to decode. */
  readonly bytesIn: () => number
}

/** The body without its `Content-Encoding`. Throws `bad-answer` for an encoding that is not known. */
export function decodedBody(answer: Answer): Readable {
  return decode(answer).body
}

/** As `decodedBody`, with what it was made of. */
export function decode(answer: Answer): Decoded {
  const encoding = encodingOf(answer.headers)
  if (encoding === 'identity') return { body: answer.body, bytesIn: () => Infinity }
  const decoder = DECODERS[encoding]?.()
  if (decoder === undefined) {
    answer.body.destroy()
    throw answer.error('bad-answer', 'its Content-Encoding is one that nobody asked for.')
  }
  return { body: decodeWith(decoder, answer), bytesIn: () => decoder.bytesWritten }
}

function decodeWith(decoder: Transform, answer: Answer): Readable {
  const decoded = new Readable({
    read: () => {
      decoder.resume()
    },
    destroy: (error, done) => {
      decoder.destroy()
      done(error)
    },
  })
  decoder.on('data', (chunk: Buffer) => {
    if (!decoded.push(chunk)) decoder.pause()
  })
  // What the reader has no room for yet comes after the last byte went in.
  decoder.once('end', () => decoded.push(null))
  pipeline(answer.body, decoder, (error) => {
    if (error) decoded.destroy(toDecodingError(error, answer))
  })
  // As with any answer: the reader sees the error, and until then it must not end the process.
  decoded.on('error', () => undefined)
  return decoded
}

function toDecodingError(error: Error, answer: Answer): Error {
  if (isDriveError(error)) return error
  if (systemErrorCode(error) === 'Z_BUF_ERROR') {
    return answer.error('unavailable', 'its compressed answer was cut.')
  }
  return answer.error('bad-answer', 'its compressed answer is damaged.')
}

/** The first `maxBytes` of a body as text; what is beyond is not read. */
export async function readSome(body: Readable, maxBytes: number): Promise<string> {
  const { chunks } = await collect(body, maxBytes)
  return Buffer.concat(chunks).subarray(0, maxBytes).toString('utf8')
}

export interface ReadLimits {
  readonly maxBytes: number
  /** From the head of the answer to its end. */
  readonly limitMs: number
}

/**
 * Reads an answer that must be JSON. Rejects `bad-answer` when it is not, or longer than `maxBytes`, and
 * `timed-out` when it is not over in time.
 */
export async function readJson(
  clock: Clock,
  answer: Answer,
  { maxBytes, limitMs }: ReadLimits,
): Promise<unknown> {
  const lift = limitBody(clock, answer, limitMs)
  try {
    const { chunks, isWhole } = await collect(decodedBody(answer), maxBytes)
    if (!isWhole) throw answer.error('bad-answer', `its answer is longer than ${maxBytes} bytes.`)
    return parseJson(answer, Buffer.concat(chunks))
  } finally {
    lift()
  }
}

/** Throws `bad-answer` when the body of this answer is not JSON. */
export function parseJson(answer: Answer, body: Buffer): unknown {
  const text = body.toString('utf8')
  try {
    return JSON.parse(text)
  } catch {
    const kind = looksLikePage(text) ? 'a web page' : text === '' ? 'empty' : 'not JSON'
    throw strange(answer, `its answer is ${kind}.`)
  }
}

/** The error of an answer that is not from such a service. */
export function strange(answer: Answer, words: string): DriveError {
  const hint = 'Is the URL of the service right?'
  return answer.error('bad-answer', words, { status: answer.status, hint })
}

async function collect(
  body: Readable,
  maxBytes: number,
): Promise<{ chunks: Buffer[]; isWhole: boolean }> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    length += chunk.length
    // Leaving the loop destroys the body, which frees the connection.
    if (length > maxBytes) return { chunks, isWhole: false }
  }
  return { chunks, isWhole: true }
}

/** Destroys the body when it is not over in time; returns the function that lifts the limit. */
export function limitBody(clock: Clock, answer: Answer, limitMs: number): () => void {
  return clock.after(limitMs, () => {
    answer.body.destroy(answer.error('timed-out', 'its answer did not end in time.'))
  })
}
