import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import { DriveError } from '../domain/errors.ts'

/** Some hundred thousand ids: more than one person asks for, and no burden on the memory of a drive. */
const MOST_BYTES = 16 * 1024 * 1024

/** The body of a request: `bad-request` for anything but JSON of this form, `usage` for more than is taken. */
export async function readJson<Schema extends z.ZodType>(
  request: IncomingMessage,
  schema: Schema,
): Promise<z.infer<Schema>> {
  if (request.headers['content-type'] !== 'application/json') throw badRequest()
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length
    // The rest is read all the same: a client that is cut off while it sends never sees the answer.
    if (length <= MOST_BYTES) chunks.push(chunk)
  }
  if (length > MOST_BYTES) throw tooMany()
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
  return new DriveError('bad-request', 'This is no request that bagfs makes.')
}

function tooMany(): DriveError {
  return new DriveError('usage', 'These are too many items to be named at once.', {
    hint: 'Name fewer of them.',
  })
}
