import { open } from 'node:fs/promises'
import { DriveError } from '../domain/errors.ts'
import { isUnchanged } from '../domain/file-times.ts'
import { throwIfAborted } from './abort.ts'

const PIECE_BYTES = 1024 * 1024

/** A local file that is expected to have this length in bytes. */
interface ExpectedFile {
  readonly path: string
  readonly length: number
  readonly mayChange?: boolean
}

/**
 * Yields a file's bytes in pieces of at most 1 MiB, never more than expected.
 * @throws DriveError `busy` when the file has another length or, where it may, changes, or the file system's error as it is.
 */
export async function* filePieces(
  file: ExpectedFile,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  const handle = await open(file.path, 'r')
  try {
    const before = await handle.stat({ bigint: true })
    let position = 0
    for (;;) {
      throwIfAborted(signal)
      // One byte more than expected, so that a longer file is noticed.
      const buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, file.length - position + 1))
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, position)
      if (bytesRead === 0) break
      position += bytesRead
      if (position > file.length) throw changed(file.path)
      yield buffer.subarray(0, bytesRead)
    }
    if (position !== file.length) throw changed(file.path)
    if (file.mayChange === true && !isUnchanged(before, await handle.stat({ bigint: true }))) {
      throw changed(file.path)
    }
  } finally {
    await handle.close()
  }
}

/** The error for content that is not what the plan promised. */
export function changed(path: string): DriveError {
  return new DriveError('busy', `${path} changed while the folder was being packed.`, {
    hint: 'Try again when nothing writes to it.',
  })
}
