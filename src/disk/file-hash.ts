import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream/promises'

/** SHA-256 of a file, 64 hex digits; reads it once, in constant memory. */
export async function sha256OfFile(path: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256')
  const options = signal === undefined ? {} : { signal }
  await pipeline(createReadStream(path, { highWaterMark: 1 << 20 }), hash, options)
  return hash.digest('hex')
}
