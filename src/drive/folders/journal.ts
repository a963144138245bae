import { closeSync, fstatSync, ftruncateSync, openSync, writeSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { ifThere } from '../../disk/if-there.ts'
import { syncData } from '../../disk/sync.ts'
import { fromFileSystem } from '../../domain/errors.ts'
import { attributeFields, keptFields } from '../../state/attribute-fields.ts'

const path = z.string().min(1)
const madeFields = { ...attributeFields, mode: z.number() }

/** Name of content in the directory of staged files. */
const file = z.string().regex(/^\d+$/)
/** SHA-256 in hex. */
const sum = z.exactOptional(z.string())
const inTree = { path: z.string(), ...keptFields }

const journalItem = z.discriminatedUnion('type', [
  z.object({ type: z.literal('directory'), ...inTree }),
  // An older version wrote no mode of a link.
  z.object({
    type: z.literal('symlink'),
    ...inTree,
    mode: z.number().default(0o777),
    target: z.string(),
  }),
  // With a sum where it was known as it moved.
  z.object({ type: z.literal('file'), ...inTree, file, length: z.number(), sha256: sum }),
])

const operation = z.discriminatedUnion('op', [
  z.object({ op: z.literal('directory'), path, atMs: z.number(), ...madeFields }),
  z.object({
    op: z.literal('symlink'),
    path,
    atMs: z.number(),
    ...attributeFields,
    target: z.string(),
  }),
  z.object({
    op: z.literal('file'),
    path,
    atMs: z.number(),
    file,
    length: z.number(),
    // Of content that was not on the platter when this was written.
    sha256: sum,
    ...keptFields,
  }),
  z.object({
    op: z.literal('tree'),
    path,
    atMs: z.number(),
    entries: z.array(journalItem).readonly(),
  }),
  z.object({ op: z.literal('remove'), path, atMs: z.number() }),
  // With `exchanges` two more follow, see `exchanging`.
  z.object({
    op: z.literal('rename'),
    path,
    atMs: z.number(),
    to: path,
    exchanges: z.exactOptional(path),
  }),
  z.object({ op: z.literal('attributes'), path: z.string(), ...attributeFields }),
])

/**
 * A file, a link, or a directory with what is in it, that came from elsewhere at once. Paths are
 * relative to its top, which has the empty path and comes first; each directory before what it holds.
 */
export type JournalItem = z.infer<typeof journalItem>

/** One change of a folder. Paths are relative to it; `atMs` is when, for the time of the parent. */
export type Operation = z.infer<typeof operation>

/** Names of the staged files that an operation needs. */
export function filesOf(operation: Operation): readonly string[] {
  return filePathsOf(operation).map(({ file }) => file)
}

/** The paths at which an operation puts content of the staging directory, with its sum where there is one. */
export function filePathsOf(operation: Operation): readonly {
  readonly path: string
  readonly file: string
  readonly sha256?: string | undefined
}[] {
  if (operation.op === 'file') return [operation]
  if (operation.op !== 'tree') return []
  return operation.entries.flatMap((entry) => {
    if (entry.type !== 'file') return []
    const path = entry.path === '' ? operation.path : `${operation.path}/${entry.path}`
    return [{ ...entry, path }]
  })
}

/** The changes of a folder on disk: a line of JSON each, appended in order. */
export class Journal {
  readonly #fd: number
  #count: number

  private constructor(fd: number, count: number) {
    this.#fd = fd
    this.#count = count
  }

  /** Opens for appending; `count` operations are in it already. */
  static open(path: string, count: number): Journal {
    try {
      return new Journal(openSync(path, 'a', 0o600), count)
    } catch (error) {
      throw fromFileSystem(error, 'The journal of a folder cannot be opened')
    }
  }

  /** Operations so far. */
  get count(): number {
    return this.#count
  }

  /** Survives a kill of this process when it returns, a power cut after `sync`. All or nothing. */
  append(...values: readonly Operation[]): void {
    const before = this.#length()
    try {
      const lines = Buffer.from(values.map((value) => `${JSON.stringify(value)}\n`).join(''))
      for (let done = 0; done < lines.length;) done += writeSync(this.#fd, lines, done)
    } catch (error) {
      // On a full disk half a line may be written, and the next would go on with it.
      ftruncateSync(this.#fd, before)
      throw fromFileSystem(error, 'The change of a folder cannot be written down')
    }
    this.#count += values.length
  }

  #length(): number {
    try {
      return fstatSync(this.#fd).size
    } catch (error) {
      throw fromFileSystem(error, 'The journal of a folder cannot be looked at')
    }
  }

  async sync(): Promise<void> {
    try {
      await syncData(this.#fd)
    } catch (error) {
      throw fromFileSystem(error, 'The journal of a folder cannot be written')
    }
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** What a journal on disk tells. */
export interface JournalContent {
  /** Up to the first line that is damaged. */
  readonly operations: readonly Operation[]
  /** Where the journal is to be cut before more is appended. */
  readonly wholeBytes: number
  /** The first damaged line and what follows it; empty when all is sound. */
  readonly damaged: Buffer
}

/**
 * Reads a journal. A last line without its end was cut by a kill and was not promised; it is
 * left out.
 */
export async function readJournal(file: string): Promise<JournalContent> {
  const bytes = await readIfThere(file)
  const whole = bytes.subarray(0, bytes.lastIndexOf('\n') + 1)
  const operations: Operation[] = []
  let wholeBytes = 0
  for (let end = whole.indexOf('\n'); end >= 0; end = whole.indexOf('\n', wholeBytes)) {
    const known = parseLine(whole.subarray(wholeBytes, end))
    if (known === undefined) break
    operations.push(known)
    wholeBytes = end + 1
  }
  return { operations, wholeBytes, damaged: whole.subarray(wholeBytes) }
}

/** Undefined for a line that is none of ours. */
function parseLine(line: Buffer): Operation | undefined {
  try {
    return operation.safeParse(JSON.parse(line.toString())).data
  } catch {
    return undefined
  }
}

async function readIfThere(file: string): Promise<Buffer> {
  return (
    (await ifThere(readFile(file), 'The journal of a folder cannot be read')) ?? Buffer.alloc(0)
  )
}
