import { syncData } from '../../disk/sync.ts'
import { createHash, type Hash } from 'node:crypto'
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs'
import { withChanges, type AttributeChanges, type KeptAttributes } from '../../domain/attributes.ts'
import { fromFileSystem, localDiskFull } from '../../domain/errors.ts'
import type { IntentId } from '../../domain/ids.ts'
import type { Base } from '../../intents/base.ts'
import type { Room } from '../space/room.ts'
import { allocatedOf } from './allocated.ts'
import { copySource } from './copy-source.ts'
import type { DiskSpan, ShareRange } from './share-range.ts'
import type { Source } from './source.ts'

/** Without mtime or ctime these are the time of the last write. */
export type GivenAttributes = Omit<KeptAttributes, 'mtimeMs'> & {
  readonly mtimeMs?: number | undefined
}

const CHUNK = 1 << 20

/** A draft of the outbox: where new content goes. */
interface Draft {
  readonly id: IntentId
  readonly path: string
}

/** Keeps bytes as they are before they change, or are cut off. */
export interface BytesBefore {
  /** Throws when they cannot be kept: then they must not change. */
  keep(content: StagedFile, start: number, end: number): void
  /** All from `start` on; others have their turn in between. */
  keepFrom(content: StagedFile, start: number): Promise<void>
}

/**
 * Content written here, in a draft of the outbox. Local disk only, so reads and writes are
 * synchronous. Once it is committed it must not change any more (the uploader reads it, the cache
 * adopts it): the drive then copies it to a new draft before the next write.
 */
export class StagedFile implements Source {
  readonly id: IntentId
  readonly path: string
  /** What it takes the place of, as it was when writing began. */
  base: Base
  /** What was set of it: a write moves mtime and ctime. */
  #given: GivenAttributes
  lastWriteMs: number
  description: string | undefined
  /** True while it holds what no intent promises yet. */
  hasUnpromised = true
  /** What it takes of the account; it follows the length, and the owner gives it back. */
  readonly room: Room
  readonly #before: () => BytesBefore | undefined
  /** True from the moment at which its content is taken for a promise. */
  #isFrozen = false
  readonly fd: number
  #length = 0
  /** False for what was only written from its start on, which costs no look at the disk. */
  #mayHaveHoles = false
  /** Undefined until it is asked for. */
  #allocated: number | undefined
  /** Sum of the whole content, once it was read for that. */
  #sum: string | undefined
  /** How often it was changed. */
  #changes = 0
  /** Hash of the first `hashed` bytes, kept while writing is sequential. */
  #hash: Hash | undefined = createHash('sha256')
  #hashed = 0
  /** A write that failed, for as long as the program has not made it good. */
  #gap: { readonly from: number; readonly to: number; readonly error: unknown } | undefined
  #users = 0
  #closed = false

  constructor(
    draft: Draft,
    base: Base,
    settings: {
      readonly attributes: GivenAttributes
      readonly nowMs: number
      readonly room: Room
      /** What has to be kept of the bytes that change; asked before each change. */
      readonly before?: () => BytesBefore | undefined
    },
  ) {
    this.id = draft.id
    this.path = draft.path
    this.base = base
    this.#given = settings.attributes
    this.lastWriteMs = settings.nowMs
    this.room = settings.room
    this.#before = settings.before ?? (() => undefined)
    try {
      this.fd = openSync(draft.path, constants.O_RDWR | constants.O_CREAT, 0o600)
      const found = fstatSync(this.fd)
      this.#length = found.size
      this.#mayHaveHoles = allocatedOf(found) !== undefined
    } catch (error) {
      throw fromFileSystem(error, 'New content cannot be staged')
    }
    if (this.#length > 0) this.#hash = undefined
    this.room.hold(this.#length)
  }

  /** True while it may be written in place: else a write goes to a copy of it. */
  get isDraft(): boolean {
    return this.hasUnpromised && !this.#isFrozen
  }

  /** Its content is being promised as it is now; `thaw` when that failed. */
  freeze(): void {
    this.#isFrozen = true
  }

  thaw(): void {
    this.#isFrozen = false
  }

  get size(): number {
    return this.#length
  }

  /** See `Attributes`. */
  get allocated(): number | undefined {
    if (!this.#mayHaveHoles) return undefined
    this.#allocated ??= allocatedOf(fstatSync(this.fd))
    return this.#allocated
  }

  length(): Promise<number> {
    return Promise.resolve(this.#length)
  }

  read(buffer: Uint8Array, position: number): Promise<number> {
    return Promise.resolve(this.readNow(buffer, position))
  }

  readNow(buffer: Uint8Array, position: number): number {
    try {
      return readSync(this.fd, buffer, 0, buffer.length, position)
    } catch (error) {
      throw fromFileSystem(error, 'Staged content cannot be read')
    }
  }

  /** True when it may be so many bytes long; what is kept of the bytes before takes room on the disk, too. */
  fits(length: number): boolean {
    return this.room.fits(length) && !(this.room.isDiskShort && this.#before() !== undefined)
  }

  /** Throws when it may not be so many bytes long, after asking the service once more. */
  async check(length: number): Promise<void> {
    if (this.fits(length)) return
    await this.room.check(length)
    if (this.room.isDiskShort) throw localDiskFull('What was closed cannot be kept')
  }

  /** Writes all of `bytes`; a position beyond the end leaves a hole of zeros. */
  write(bytes: Uint8Array, position: number, nowMs: number): void {
    try {
      this.#before()?.keep(this, position, position + bytes.length)
    } catch (error) {
      throw this.failed(position, bytes.length, error)
    }
    try {
      let done = 0
      while (done < bytes.length) {
        done += writeSync(this.fd, bytes, done, bytes.length - done, position + done)
      }
    } catch (error) {
      this.#takeBack()
      throw this.failed(position, bytes.length, fromFileSystem(error, 'Content cannot be staged'))
    }
    this.#hashWrite(bytes, position)
    if (position > this.#length) this.#mayHaveHoles = true
    this.#length = Math.max(this.#length, position + bytes.length)
    this.room.hold(this.#length)
    this.#mend(position, position + bytes.length)
    this.#touched(nowMs)
  }

  /** As `write`, of bytes that another file shares; false where they have to be written. Their sum is not known. */
  shareFrom(
    span: DiskSpan,
    position: number,
    { share, nowMs }: { readonly share: ShareRange; readonly nowMs: number },
  ): boolean {
    // Bytes that are to be kept as they were would have to be read.
    if (span.fd === this.fd || this.#before() !== undefined) return false
    const isShared = share(span, { fd: this.fd, offset: position })
    if (position < this.#hashed || (isShared && position === this.#hashed)) this.#hash = undefined
    if (!isShared) {
      ftruncateSync(this.fd, this.#length)
      return false
    }
    const end = position + span.length
    this.#mayHaveHoles = true
    this.#length = Math.max(this.#length, end)
    this.room.hold(this.#length)
    this.#mend(position, end)
    this.#touched(nowMs)
    return true
  }

  /** Notes a write that could not be taken; answers its error. Until it is made good this is half a file. */
  failed<Failure>(position: number, length: number, error: Failure): Failure {
    this.#gap ??= { from: position, to: position + length, error }
    return error
  }

  /** True when a write failed and was not made good: this is not what the program meant to store. */
  get isHalf(): boolean {
    return this.#gap !== undefined
  }

  /** Throws the error of the write that failed when this is half a file. */
  refuseHalf(): void {
    if (this.#gap !== undefined) throw this.#gap.error
  }

  #mend(start: number, end: number): void {
    const gap = this.#gap
    if (gap === undefined || start > gap.from || end <= gap.from) return
    this.#gap = end >= gap.to ? undefined : { ...gap, from: end }
  }

  /** A write that failed half way may have left bytes behind the end, and others in the middle. */
  #takeBack(): void {
    this.#hash = undefined
    this.#changed()
    ftruncateSync(this.fd, this.#length)
  }

  /** Keeps what a cut would take, with turns for others; without it, `truncate` keeps it in one go. */
  async prepareCut(length: number): Promise<void> {
    await this.#before()?.keepFrom(this, length)
  }

  truncate(length: number, nowMs: number): void {
    this.#before()?.keep(this, length, Infinity)
    try {
      ftruncateSync(this.fd, length)
    } catch (error) {
      throw fromFileSystem(error, 'Staged content cannot be cut')
    }
    if (length === 0) this.#hash = createHash('sha256')
    else if (length < this.#hashed) this.#hash = undefined
    if (length === 0) this.#hashed = 0
    this.#mayHaveHoles = length > this.#length || (this.#mayHaveHoles && length > 0)
    this.#length = length
    this.room.hold(length)
    if (this.#gap !== undefined && length <= this.#gap.from) this.#gap = undefined
    this.#touched(nowMs)
  }

  /** SHA-256 of the whole content, 64 hex digits; undefined unless it is at hand, as after sequential writing. */
  get knownSha256(): string | undefined {
    const isKnown = this.#hash !== undefined && this.#hashed === this.#length
    return isKnown ? this.#hash?.copy().digest('hex') : this.#sum
  }

  /** SHA-256 of the whole content, 64 hex digits. */
  async sha256(): Promise<string> {
    const known = this.knownSha256
    if (known !== undefined) return known
    const changes = this.#changes
    const hash = createHash('sha256')
    const buffer = Buffer.allocUnsafe(CHUNK)
    for (let position = 0, count = -1; count !== 0; position += count) {
      count = this.readNow(buffer, position)
      hash.update(buffer.subarray(0, count))
      if (count > 0) await yieldToOthers()
    }
    const sum = hash.digest('hex')
    if (this.#changes === changes) this.#sum = sum
    return sum
  }

  /** Copies the whole content to a new file. */
  async copyTo(path: string): Promise<void> {
    await copySource(this, path)
  }

  /** Resolves when the content would survive a power cut. */
  async sync(): Promise<void> {
    try {
      await syncData(this.fd)
    } catch (error) {
      throw fromFileSystem(error, 'Staged content cannot be written')
    }
  }

  get times(): { readonly mtimeMs: number; readonly ctimeMs: number } {
    const { mtimeMs = this.lastWriteMs, ctimeMs = this.lastWriteMs } = this.#given
    return { mtimeMs, ctimeMs }
  }

  /** As they are now. */
  get attributes(): KeptAttributes {
    return { ...this.#given, ...this.times }
  }

  /** The attributes of a new file. */
  begin(given: GivenAttributes): void {
    this.#given = given
  }

  change(changes: AttributeChanges): void {
    this.#given = withChanges(this.attributes, changes)
  }

  /** Counts a user (the node, a handle); the descriptor is closed when the last one is gone. */
  retain(): this {
    this.#users += 1
    return this
  }

  close(): void {
    this.#users -= 1
    if (this.#users > 0 || this.#closed) return
    this.#closed = true
    closeSync(this.fd)
  }

  #hashWrite(bytes: Uint8Array, position: number): void {
    if (position === this.#hashed) {
      this.#hash?.update(bytes)
      this.#hashed += bytes.length
    } else if (position < this.#hashed) {
      this.#hash = undefined
    }
  }

  /** What was learned by looking at all of it is not known any more. */
  #changed(): void {
    this.#allocated = undefined
    this.#sum = undefined
    this.#changes += 1
  }

  #touched(nowMs: number): void {
    this.#changed()
    this.lastWriteMs = nowMs
    if (this.#given.mtimeMs !== undefined || this.#given.ctimeMs !== undefined) {
      this.#given = { ...this.#given, mtimeMs: undefined, ctimeMs: undefined }
    }
    this.hasUnpromised = true
  }
}

function yieldToOthers(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
