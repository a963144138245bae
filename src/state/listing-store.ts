import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { ArrayPieces, parsePiece } from '../domain/array-pieces.ts'
import { fromFileSystem, isAbsent } from '../domain/errors.ts'
import { isBagId, toBagId } from '../domain/ids.ts'
import type { BagRecord } from '../domain/record.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'

/** The last listing, as it is kept for a mount without network. Times are milliseconds since the epoch. */
export interface ListingAnswer {
  readonly records: readonly BagRecord[]
  /** When the request was begun that this is the answer of. */
  readonly startedAtMs: number
  readonly receivedAtMs: number
}

const records = z.array(
  z
    .object({
      bagId: z.string().refine(isBagId).transform(toBagId),
      name: z.string(),
      size: z.number().optional(),
      uploadedAtMs: z.number(),
      description: z.string(),
    })
    .transform((record): BagRecord => ({ ...record, size: record.size })),
)
/** What is around the records. */
const frame = z.object({
  version: z.literal(1),
  startedAtMs: z.number(),
  receivedAtMs: z.number(),
  records: z.tuple([]),
})
/** Records that are written at a time. */
const WRITTEN_AT_A_TIME = 256

/** Keeps the last listing in `listing.json` of the state directory. */
export class ListingStore {
  readonly #dir: string
  readonly #path: string

  constructor(dir: string) {
    this.#dir = dir
    this.#path = join(dir, 'listing.json')
  }

  /** Resolves with undefined when there is none that can be used: the service has a newer one. */
  async load(): Promise<ListingAnswer | undefined> {
    try {
      return await readSaved(createReadStream(this.#path))
    } catch (error) {
      if (isUnusable(error) || isAbsent(error)) return undefined
      throw fromFileSystem(error, 'The kept listing cannot be read')
    }
  }

  /** The old listing or the new one is there at any time; after a power cut the old one may be. */
  async save(listing: ListingAnswer): Promise<void> {
    try {
      await makePrivateDirectory(this.#dir)
      await writeFileAtomic(this.#path, textOf(listing), { durable: true })
    } catch (error) {
      throw fromFileSystem(error, 'The listing cannot be kept')
    }
  }
}

/** Read and written a little at a time: the listing of a large account is hundreds of megabytes. */
async function readSaved(file: AsyncIterable<Buffer>): Promise<ListingAnswer> {
  const splitter = new ArrayPieces()
  const found: BagRecord[] = []
  for await (const chunk of file) {
    for (const piece of splitter.push(chunk)) found.push(...records.parse(parsePiece(piece)))
  }
  const { startedAtMs, receivedAtMs } = frame.parse(JSON.parse(splitter.end()))
  return { records: found, startedAtMs, receivedAtMs }
}

function* textOf({ records: all, startedAtMs, receivedAtMs }: ListingAnswer): Iterable<string> {
  const head = JSON.stringify({ version: 1, startedAtMs, receivedAtMs, records: [] })
  yield head.slice(0, -']}'.length)
  for (let at = 0; at < all.length; at += WRITTEN_AT_A_TIME) {
    const some = JSON.stringify(all.slice(at, at + WRITTEN_AT_A_TIME)).slice(1, -1)
    yield at === 0 ? some : `,${some}`
  }
  yield ']}'
}

/** True for text that is no kept listing: of another version, or left by a failing disk. */
function isUnusable(error: unknown): boolean {
  return error instanceof SyntaxError || error instanceof z.ZodError
}
