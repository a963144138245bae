import type { FileHandle } from 'node:fs/promises'
import { fromFileSystem } from '../domain/errors.ts'

/** Writes all bytes at a position: a nearly full disk may take a part of them, and refuse only the rest. */
export async function writeFully(
  file: FileHandle,
  bytes: Uint8Array,
  position: number,
): Promise<void> {
  try {
    for (let done = 0; done < bytes.length;) {
      const rest = bytes.subarray(done)
      done += (await file.write(rest, 0, rest.length, position + done)).bytesWritten
    }
  } catch (error) {
    throw fromFileSystem(error, 'Writing to the local disk')
  }
}
