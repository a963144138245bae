import { open } from 'node:fs/promises'

const BLOCK = 2 ** 20
const FIRST_BLOCK = 4096

/** How a file was read from its beginning, open and close included. */
export interface WholeRead {
  readonly firstByteMs: number
  readonly bytes: number
  readonly mbPerS: number
  readonly seconds: number
}

/** Reads a file to its end, or for `limitMs`, in blocks of 1 MiB after a first small one. */
export async function readWhole(path: string, limitMs = Infinity): Promise<WholeRead> {
  const buffer = Buffer.allocUnsafe(BLOCK)
  const startedMs = performance.now()
  const file = await open(path, 'r')
  try {
    let bytes = (await file.read(buffer, 0, FIRST_BLOCK, 0)).bytesRead
    const firstByteMs = performance.now() - startedMs
    while (performance.now() - startedMs < limitMs) {
      const { bytesRead } = await file.read(buffer, 0, BLOCK, bytes)
      if (bytesRead === 0) break
      bytes += bytesRead
    }
    const ms = performance.now() - startedMs
    return { firstByteMs, bytes, mbPerS: bytes / 1e3 / ms, seconds: ms / 1e3 }
  } finally {
    await file.close()
  }
}
