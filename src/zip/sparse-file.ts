import { open, type FileHandle } from 'node:fs/promises'
import { fromFileSystem } from '../domain/errors.ts'

/** Resolves when so many bytes more may be written to the disk; rejects `local-disk-full` when not. */
export type MakeRoom = (bytes: number) => Promise<void>

const ZEROS = Buffer.alloc(1 << 20)

/** True when all bytes are zero: a hole can stand for them. */
export function isZero(bytes: Uint8Array): boolean {
  for (let at = 0; at < bytes.length; at += ZEROS.length) {
    const piece = bytes.subarray(at, at + ZEROS.length)
    if (ZEROS.compare(piece, 0, piece.length, 0, piece.length) !== 0) return false
  }
  return true
}

/**
 * Writes content to an empty file from its start on. Pieces of zeros become holes, which take no room:
 * what deflates to nearly nothing takes nearly nothing on the disk too.
 */
export class SparseWriter {
  readonly #file: FileHandle
  readonly #makeRoom: MakeRoom | undefined
  /** Bytes so far; all of them can be read. */
  length = 0

  constructor(file: FileHandle, makeRoom?: MakeRoom) {
    this.#file = file
    this.#makeRoom = makeRoom
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (isZero(bytes)) {
      await this.#file.truncate(this.length + bytes.length)
    } else {
      await this.#makeRoom?.(bytes.length)
      await this.#writeFully(bytes)
    }
    this.length += bytes.length
  }

  async #writeFully(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      const { bytesWritten } = await this.#file.write(
        bytes,
        done,
        bytes.length - done,
        this.length + done,
      )
      done += bytesWritten
    }
  }
}

/** Copies the first bytes of a file, so many at most, to a new one, with holes for its zeros. */
export async function copySparse(from: string, to: string, maxBytes: number): Promise<void> {
  const source = await open(from, 'r')
  try {
    const target = await open(to, 'wx', 0o600)
    try {
      const writer = new SparseWriter(target)
      const buffer = Buffer.allocUnsafe(ZEROS.length)
      for (;;) {
        const length = Math.min(buffer.length, maxBytes - writer.length)
        const { bytesRead } = await source.read(buffer, 0, length, writer.length)
        if (bytesRead === 0) return
        await writer.write(buffer.subarray(0, bytesRead))
      }
    } finally {
      await target.close()
    }
  } catch (error) {
    throw fromFileSystem(error, 'Content cannot be copied')
  } finally {
    await source.close()
  }
}
