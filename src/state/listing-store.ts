import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { fromFileSystem, systemErrorCode } from '../domain/errors.ts'
import { toBagId } from '../domain/ids.ts'
import type { BagRecord } from '../domain/record.ts'
import { writeFileAtomic } from './atomic-file.ts'
import { makePrivateDirectory } from './private-dir.ts'

/** The last listing, as it is kept for a mount without network. Times are milliseconds since the epoch. */
export interface StoredListing {
  readonly records: readonly BagRecord[]
  /** When the request was begun that this is the answer of. */
  readonly startedAtMs: number
  readonly receivedAtMs: number
}

const recordSchema = z
  .object({
    bagId: z.string().min(1).transform(toBagId),
    name: z.string(),
    size: z.number().optional(),
    uploadedAtMs: z.number(),
    description: z.string(),
  })
  .transform((record): BagRecord => ({ ...record, size: record.size }))

const fileSchema = z.object({
  version: z.literal(1),
  startedAtMs: z.number(),
  receivedAtMs: z.number(),
  records: z.array(recordSchema),
})

/** Keeps the last listing in `listing.json` of the state directory. */
export class ListingStore {
  readonly #dir: string
  readonly #path: string

  constructor(dir: string) {
    this.#dir = dir
    this.#path = join(dir, 'listing.json')
  }

  /** Resolves with undefined when there is none that can be used: the service has a newer one. */
  async load(): Promise<StoredListing | undefined> {
    const text = await this.#read()
    if (text === undefined) return undefined
    const parsed = fileSchema.safeParse(parseJson(text))
    if (!parsed.success) return undefined
    const { records, startedAtMs, receivedAtMs } = parsed.data
    return { records, startedAtMs, receivedAtMs }
  }

  /** The old listing or the new one is there at any time; after a power cut the old one may be. */
  async save(listing: StoredListing): Promise<void> {
    try {
      await makePrivateDirectory(this.#dir)
      const text = JSON.stringify({ version: 1, ...listing })
      await writeFileAtomic(this.#path, text, { durable: true })
    } catch (error) {
      throw fromFileSystem(error, 'The listing cannot be kept')
    }
  }

  async #read(): Promise<string | undefined> {
    try {
      return await readFile(this.#path, 'utf8')
    } catch (error) {
      if (systemErrorCode(error) === 'ENOENT') return undefined
      throw fromFileSystem(error, 'The kept listing cannot be read')
    }
  }
}

/** Text that is no JSON, left by a failing disk, gives undefined, which no schema takes. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
