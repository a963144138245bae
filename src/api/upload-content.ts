import { mkdtemp, open, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { ReadableStream } from 'node:stream/web'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import { untilAborted } from '../domain/until-aborted.ts'
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
 * `local-io` and `local-disk-full`, and `invalid` for a stream that gives no bytes or was read before. It also rejects as
 * the stream itself does, and with the reason of the signal, also while the stream stands still.
 */
export async function withUploadFile<T>(
  content: UploadContent,
  signal: AbortSignal,
  upload: (file: UploadFile) => Promise<T>,
): Promise<T> {
  if (content instanceof Uint8Array) return upload(inMemory(content))
  if (!isStream(content)) return upload(await onDisk(content))
  const stream = asUnread(content)
  const directory = await mkdtemp(join(tmpdir(), 'bagfs-upload-')).catch(rejectLocally)
  try {
    const path = join(directory, 'content')
    return await upload({ path, length: await writeDown(stream, path, signal) })
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** A stream of a file has a path, too. */
function isStream(content: unknown): content is AsyncIterable<Uint8Array> {
  return typeof content === 'object' && content !== null && Symbol.asyncIterator in content
}

/** What was read before has nothing, or only its end, to give. A stream of the web can be ended by what comes of it. */
function asUnread(content: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  if (content instanceof Readable) {
    const isDestroyed = content.destroyed && content.errored === null
    if (content.readableDidRead || isDestroyed) throw readBefore()
    return content
  }
  if (!(content instanceof ReadableStream)) return content
  // It takes streams of the web, too, and its type does not say so.
  if (content.locked || Readable.isDisturbed(content as unknown as Readable)) throw readBefore()
  return Readable.fromWeb(content, { objectMode: true })
}

function readBefore(): DriveError {
  return new DriveError('invalid', 'The stream was read before.', {
    hint: 'Give one that nothing has read yet.',
  })
}

/** Errors name it in the place of a path. */
function inMemory(content: Uint8Array): UploadFile {
  const pieces = async function* (): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(content)
  }
  return { path: 'the content', length: content.length, pieces }
}

async function onDisk(content: { readonly path: unknown } | null): Promise<UploadFile> {
  const path = content?.path
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
  signal: AbortSignal,
): Promise<number> {
  const file = await open(path, 'wx', 0o600).catch(rejectLocally)
  const iterator = content[Symbol.asyncIterator]()
  let length = 0
  try {
    for (;;) {
      signal.throwIfAborted()
      const next = await untilAborted(iterator.next(), signal, reasonOf)
      if (next.done === true) return length
      if (!isBytes(next.value)) throw noContent()
      await file.appendFile(next.value).catch(rejectLocally)
      length += next.value.length
    }
  } catch (error) {
    letGo(content, iterator)
    throw error
  } finally {
    await file.close()
  }
}

function reasonOf(signal: AbortSignal): Error {
  return signal.reason as Error
}

/** Without waiting: a stream that stands still never answers. */
function letGo(content: AsyncIterable<Uint8Array>, iterator: AsyncIterator<Uint8Array>): void {
  if (content instanceof Readable) content.destroy()
  else iterator.return?.().catch(ignore)
}

/** Why the call ends is known already. */
function ignore(): void {
  // Nothing is left to tell.
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
