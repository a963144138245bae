import type { FastifyRequest } from 'fastify'
import type { Multipart, MultipartFile, MultipartValue } from '@fastify/multipart'
import { DriveError } from '../domain/errors.ts'
import { rejectField } from './answers.ts'
import type { BagStore } from './bag-store.ts'
import type { ReceivableRoom, ReceivedContent } from './incoming.ts'

/** The form of an upload: the file on disk, and what was said of it. */
export interface ReceivedForm {
  readonly content: ReceivedContent
  readonly name: string
  readonly description: string
}

/** Reads `bag_id` of a JSON, urlencoded or multipart body. Rejects `rejected`, `bad-request`. */
export async function readBagId(request: FastifyRequest): Promise<string> {
  const value = request.isMultipart()
    ? (await readFields(request)).get('bag_id')
    : propertyOf(request.body, 'bag_id')
  if (typeof value === 'string' && value !== '') return value
  throw rejectField('bag_id', value === undefined ? 'Field required' : 'Must be a text')
}

function propertyOf(body: unknown, key: string): unknown {
  if (typeof body !== 'object' || body === null) return undefined
  return Object.entries(body).find(([name]) => name === key)?.[1]
}

async function readFields(request: FastifyRequest): Promise<Map<string, unknown>> {
  const fields = new Map<string, unknown>()
  await eachPart(request, (part) => {
    if (part.type === 'file') part.file.resume()
    else fields.set(part.fieldname, part.value)
    return Promise.resolve()
  })
  return fields
}

/**
 * Reads the form of an upload and stores its file as it arrives. `roomFor` tells how much may
 * come under a name. Rejects `rejected`, `bad-request`, `no-space`; nothing is left on disk then.
 */
export async function readUploadForm(
  request: FastifyRequest,
  store: BagStore,
  roomFor: (name: string) => ReceivableRoom,
): Promise<ReceivedForm> {
  if (!request.isMultipart()) throw rejectField('file', 'Field required, as multipart form data')
  let file: { readonly content: ReceivedContent; readonly name: string } | undefined
  let description = ''
  try {
    await eachPart(request, async (part) => {
      if (part.type === 'field') description = descriptionOf(part) ?? description
      else if (isTheFile(part, file !== undefined)) {
        const content = await store.receive(part.file, roomFor(part.filename))
        file = { content, name: part.filename }
      }
    })
  } catch (error) {
    if (file !== undefined) await store.discard(file.content)
    throw error
  }
  if (file === undefined) throw rejectField('file', 'Field required')
  return { ...file, description }
}

function descriptionOf(part: MultipartValue): string | undefined {
  if (part.fieldname === 'file') throw rejectField('file', 'Must be a file with a name')
  if (part.fieldname !== 'description') return undefined
  if (typeof part.value === 'string' && !part.valueTruncated) return part.value
  throw rejectField('description', 'Must be a text of 1 MiB at most')
}

function isTheFile(part: MultipartFile, isSecond: boolean): boolean {
  if (part.fieldname === 'description') throw rejectField('description', 'Must be a text')
  if (part.fieldname !== 'file') {
    part.file.resume()
    return false
  }
  if (isSecond) throw rejectField('file', 'Only one file can be uploaded at a time')
  // The types promise a name, but the part may have come without.
  if ((part.filename as string | undefined) === undefined || part.filename === '') {
    throw rejectField('file', 'Must be a file with a name')
  }
  return true
}

async function eachPart(
  request: FastifyRequest,
  take: (part: Multipart) => Promise<void>,
): Promise<void> {
  try {
    for await (const part of request.parts()) await take(part)
  } catch (error) {
    // The client may still be sending, and many read the answer only when they have sent everything.
    request.raw.unpipe()
    request.raw.resume()
    if (error instanceof DriveError) throw error
    // Files are written through DriveErrors, so what is left comes from the parser.
    const words = error instanceof Error ? error.message : String(error)
    throw new DriveError('bad-request', `The form is malformed: ${words}`, {
      cause: error,
      fields: ['body'],
    })
  }
}
