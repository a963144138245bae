import { mkdtemp, open, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import type { UploadSource } from '../service/storage-service.ts'

/**
 * What an upload takes: bytes, a file of the local disk, or a stream of bytes. An upload tells its length first and may
 * have to be sent twice, so a stream is written to a temporary file before.
 */
export type UploadContent = Uint8Array | AsyncIterable<Uint8Array> | { readonly path: string }

/** Where the bytes of an upload are. */
type UploadFile = Pick<UploadSource, 'path' | 'length' | 'mayChange' | 'pieces'>

/**
 * Runs an upload of content that is anywhere. What had to be written to a temporary file is removed after it. Rejects
 * `local-io`, `local-disk-full`, `invalid` for a stream that gives no bytes, and as the stream itself does.
 */
export async function withUploadFile<T>(
  content: UploadContent,
  signal: AbortSignal | undefined,
  upload: (file: UploadFile) => Promise<T>,
): Promise<T> {
  if (content instanceof Uint8Array) return upload(inMemory(content))
  if (!isStream(content)) return upload(await onDisk(content.path))
  const directory = await mkdtemp(join(tmpdir(), 'bagfs-upload-')).catch(rejectLocally)
  try {
    const path = join(directory, 'content')
    return await upload({ path, length: await writeDown(content, path, signal) })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** A stream of a file has a path, too. */
function isStream(
  content: AsyncIterable<Uint8Array> | { readonly path: string },
): content is AsyncIterable<Uint8Array> {
  return typeof content === 'object' && Symbol.asyncIterator in content
}

/** Errors name it in the place of a path. */
function inMemory(content: Uint8Array): UploadFile {
  const pieces = async function* (): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(content)
  }
  return { path: 'the content', length: content.length, pieces }
}

async function onDisk(path: unknown): Promise<UploadFile> {
  if (typeof path !== 'string') throw noContent()
  try {
    const stats = await stat(path)
    if (stats.isFile()) return { path, length: stats.size, mayChange: true }
  } catch (error) {
    throw fromFileSystem(error, `Reading ${path}`)
  }
  throw new DriveError('invalid', `${path} is not a file.`)
}

/** Resolves with the length. */
async function writeDown(
  content: AsyncIterable<Uint8Array>,
  path: string,
  signal: AbortSignal | undefined,
): Promise<number> {
  const file = await open(path, 'wx', 0o600).catch(rejectLocally)
  let length = 0
  try {
    for await (const piece of content) {
      if (signal?.aborted === true) throw new DriveError('interrupted', 'The call was cancelled.')
      if (!isBytes(piece)) throw noContent()
      await file.appendFile(piece).catch(rejectLocally)
      length += piece.length
    }
  } finally {
    await file.close()
  }
  return length
}

/** A stream with an encoding gives text, whatever its type says. */
function isBytes(piece: unknown): piece is Uint8Array {
  return piece instanceof Uint8Array
}

function noContent(): DriveError {
  return new DriveError(
    'invalid',
    'An upload takes bytes: a Uint8Array, a stream of them, or a path.',
    {
      hint: 'A text becomes bytes by Buffer.from(text), and a stream must have no encoding.',
    },
  )
}

function rejectLocally(error: unknown): never {
  throw fromFileSystem(error, 'Keeping a stream for its upload')
}
