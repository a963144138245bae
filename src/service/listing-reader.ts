import { createHash } from 'node:crypto'
import { ArrayPieces, parsePiece } from '../domain/array-pieces.ts'
import type { Clock } from '../domain/clock.ts'
import type { BagRecord } from '../domain/record.ts'
import { Turns } from '../domain/turns.ts'
import { decode, parseJson, strange } from './answer-body.ts'
import { parseListing, type SkippedRecord } from './answers.ts'
import type { Answer } from './exchange.ts'
import { SlowAnswerLimit } from './slow-answer.ts'

/** A million records of an honest service are 250 MB, and are held in a little more. */
const MOST_BYTES = 384 * 1024 * 1024
const MOST_RECORDS = 2_000_000
/** Compressed records are hardly ever a twentieth: each has an id that is like no other. */
const MOST_RATIO = 200
/** Short texts may be compressed as much as they like. */
const FREE_BYTES = 16 * 1024 * 1024
/** Of an answer that is no list, for saying what it is. */
const MOST_OTHER_BYTES = 1024 * 1024

/** Of records that cannot be used. */
const MOST_NAMED = 20

export interface ListingReaderDeps {
  readonly clock: Clock
  /** Told of records that cannot be used, when they are first met: some of them, and how many they are. */
  readonly onSkipped: (some: readonly SkippedRecord[], count: number) => void
}

/** Some elements that follow each other. */
interface RecordPiece {
  readonly records: readonly BagRecord[]
  readonly count: number
}

interface Last {
  /** By the SHA-256 of their bytes. */
  readonly known: ReadonlyMap<string, RecordPiece>
  readonly pieces: readonly RecordPiece[]
  readonly records: readonly BagRecord[]
}

/**
 * Reads answers of `files_list` as their bytes come, and gives others their turn meanwhile. What an answer
 * has in common with the one before is not read again: its records are the very same.
 */
export class ListingReader {
  readonly #deps: ListingReaderDeps
  #last: Last = { known: new Map(), pieces: [], records: [] }

  constructor(deps: ListingReaderDeps) {
    this.#deps = deps
  }

  /**
   * The records; those of before, the same array, when the answer says the same. Rejects
   * `bad-answer` for what is no list or too large a one. Rejects `timed-out` for one that comes too
   * slowly: less than 1 KiB/s over `windowMs`.
   */
  async read(answer: Answer, windowMs: number): Promise<readonly BagRecord[]> {
    const limit = new SlowAnswerLimit(this.#deps.clock, answer, windowMs)
    try {
      return await this.#read(answer, limit)
    } catch (error) {
      throw error instanceof SyntaxError
        ? answer.error('bad-answer', 'its answer is not JSON.')
        : error
    } finally {
      limit.stop()
    }
  }

  async #read(answer: Answer, limit: SlowAnswerLimit): Promise<readonly BagRecord[]> {
    const splitter = new ArrayPieces()
    const turns = new Turns(1)
    const known = new Map<string, RecordPiece>()
    const pieces: RecordPiece[] = []
    const skipped = new Skipped()
    let count = 0
    for await (const chunk of onlyList(answer, bounded(answer, limit))) {
      for (const bytes of splitter.push(chunk)) {
        const key = createHash('sha256').update(bytes).digest('base64')
        const piece = known.get(key) ?? this.#last.known.get(key) ?? parse(bytes, count, skipped)
        known.set(key, piece)
        pieces.push(piece)
        count += piece.count
        if (count > MOST_RECORDS) {
          throw answer.error('bad-answer', `its listing has more than ${MOST_RECORDS} records.`)
        }
      }
      if (turns.isOver()) await turns.next()
    }
    JSON.parse(splitter.end())
    if (skipped.count > 0) this.#deps.onSkipped(skipped.some, skipped.count)
    return this.#keep(known, pieces, turns)
  }

  async #keep(
    known: ReadonlyMap<string, RecordPiece>,
    pieces: readonly RecordPiece[],
    turns: Turns,
  ): Promise<readonly BagRecord[]> {
    const last = this.#last
    const isSame =
      pieces.length === last.pieces.length && pieces.every((piece, at) => piece === last.pieces[at])
    if (isSame) return last.records
    const records: BagRecord[] = []
    for (const piece of pieces) {
      records.push(...piece.records)
      if (turns.isOver()) await turns.next()
    }
    this.#last = { known, pieces, records }
    return records
  }
}

/** Records that cannot be used; of a multitude, the first. */
class Skipped {
  readonly some: SkippedRecord[] = []
  count = 0

  add(skipped: readonly SkippedRecord[], offset: number): void {
    this.count += skipped.length
    const room = MOST_NAMED - this.some.length
    for (const one of skipped.slice(0, room)) this.some.push({ ...one, index: offset + one.index })
  }
}

function parse(bytes: Buffer, offset: number, all: Skipped): RecordPiece {
  const { records, skipped } = parseListing(parsePiece(bytes))
  all.add(skipped, offset)
  return { records, count: records.length + skipped.length }
}

/** The decoded bytes of a listing, as long as they are within reason. */
async function* bounded(answer: Answer, limit: SlowAnswerLimit): AsyncIterable<Buffer> {
  const { body, bytesIn } = decode(answer)
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    limit.count(chunk.length)
    bytes += chunk.length
    if (bytes > MOST_BYTES) {
      throw answer.error('bad-answer', `its listing is longer than ${MOST_BYTES} bytes.`)
    }
    if (bytes > FREE_BYTES && bytes > MOST_RATIO * bytesIn()) {
      throw answer.error('bad-answer', 'its listing is compressed more than any listing can be.')
    }
    yield chunk
  }
}

/** Passes a list on. Another answer is `bad-answer`, with words for what it is. */
async function* onlyList(answer: Answer, body: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  const other: Buffer[] = []
  let otherBytes = 0
  let isList: boolean | undefined
  for await (const chunk of body) {
    isList ??= beginsList(chunk)
    if (isList === true) {
      yield chunk
      continue
    }
    other.push(chunk)
    otherBytes += chunk.length
    if (otherBytes > MOST_OTHER_BYTES) break
  }
  if (isList === true) return
  parseJson(answer, Buffer.concat(other))
  throw strange(answer, 'its answer is no list.')
}

/** Undefined for nothing but blanks. */
function beginsList(chunk: Buffer): boolean | undefined {
  const first = chunk.find((byte) => ![0x09, 0x0a, 0x0d, 0x20].includes(byte))
  return first === undefined ? undefined : first === 0x5b
}
