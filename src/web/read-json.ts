import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import { DriveError } from '../domain/errors.ts'

/** Ids and names only. */
const MOST_BYTES = 64 * 1024

/** The body of a request; throws `bad-request` for anything but JSON of this form. */
export async function readJson<Schema extends z.ZodType>(
  request: IncomingMessage,
  schema: Schema,
): Promise<z.infer<Schema>> {
  if (request.headers['content-type'] !== 'application/json') throw badRequest()
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > MOST_BYTES) throw badRequest()
    chunks.push(chunk)
  }
  const { data } = schema.safeParse(parsed(Buffer.concat(chunks).toString('utf8')))
  if (data === undefined) throw badRequest()
  return data
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}

function badRequest(): DriveError {
  return new DriveError('bad-request', 'This is no request of the page.')
}
