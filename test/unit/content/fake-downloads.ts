import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { BagCache } from '../../../src/content/bag-cache.ts'
import type { BagCacheDependencies, BagCacheSettings } from '../../../src/content/bag-cache.ts'
import type { BagReader } from '../../../src/content/bag-reader.ts'
import type { ReadDispatcher } from '../../../src/content/read-dispatcher.ts'
import { StreamCount } from '../../../src/content/stream-count.ts'
import type { Clock } from '../../../src/domain/clock.ts'
import { DriveError } from '../../../src/domain/errors.ts'
import { toBagId } from '../../../src/domain/ids.ts'
import type { BagId } from '../../../src/domain/ids.ts'
import type { Logger } from '../../../src/domain/logger.ts'
import type { BagFacts, FactsAccess } from '../../../src/domain/record.ts'
import type {
  Download,
  DownloadLimits,
  DownloadOptions,
  StorageService,
} from '../../../src/service/storage-service.ts'

/** What one answer does differently from a good one. */
export interface Fault {
  /** The body ends with an error after this many bytes. */
  readonly cutAfter?: number
  /** The body ends cleanly, too early, after this many bytes. */
  readonly endAfter?: number
  /** Told with the request's limits before anything else; may let time pass. */
  readonly before?: (limits: DownloadLimits | undefined) => void
  /** Told before each chunk of the body where it begins; may let time pass. */
  readonly beforeChunk?: (position: number) => Promise<void>
  /** Fails instead of answering. */
  readonly error?: Error
  readonly totalLength?: number
  readonly etag?: string
  readonly content?: Uint8Array
  readonly contentType?: string
  /** Null for an answer that names no file. */
  readonly fileName?: string | null
  /** Tells no length. */
  readonly length?: false
  /** Tells no length, and ends with its connection. */
  readonly end?: false
}

export interface SourceOptions {
  readonly ranges?: boolean
  readonly announcesRanges?: boolean
  readonly length?: boolean
  readonly chunkBytes?: number
  readonly etag?: string
  /** Each request for a range with an end fails so. */
  readonly endedRangeError?: Error
}

export interface Request {
  readonly bagId: BagId
  readonly start: number
  /** Where the range ends; undefined for one without an end. */
  readonly end: number | undefined
  /** Bytes handed out so far. */
  sent: number
  body?: Readable
}

function begin({ before, error }: Fault, { onBegin, limits }: DownloadOptions): void {
  onBegin?.()
  before?.(limits)
  if (error !== undefined) throw error
}

/** A source of downloads with scripted faults; bytes can be held back at any position. */
export class FakeDownloads implements Pick<StorageService, 'download'> {
  readonly requests: Request[] = []
  readonly contents = new Map<BagId, Uint8Array>()
  /** What the listing tells of a bag, where that is not its length. */
  readonly listed = new Map<BagId, readonly number[]>()
  readonly #options: SourceOptions
  /** Faults of the coming answers, in order. */
  readonly faults: (Fault | undefined)[] = []
  #gateAt = Infinity
  #opened: () => void = () => undefined
  #gate: Promise<void> = Promise.resolve()

  constructor(options: SourceOptions = {}) {
    this.#options = options
  }

  listedSizes(bagId: BagId): readonly number[] {
    const length = this.contents.get(bagId)?.length
    return this.listed.get(bagId) ?? (length === undefined ? [] : [length])
  }

  /** Bodies hold back the bytes from `position` on until `openGate`. */
  closeGate(position: number): void {
    this.#gateAt = position
    this.#gate = new Promise((resolve) => {
      this.#opened = resolve
    })
  }

  openGate(): void {
    this.#gateAt = Infinity
    this.#opened()
  }

  async download(bagId: BagId, options: DownloadOptions = {}): Promise<Download> {
    await Promise.resolve()
    const fault = this.faults.shift() ?? {}
    const asked = options.range?.start ?? 0
    const start = this.#options.ranges === false ? 0 : asked
    const end = options.range?.end
    const request: Request = { bagId, start: asked, end, sent: 0 }
    this.requests.push(request)
    begin(fault, options)
    this.#refuseEnded(end)
    const content = fault.content ?? this.contents.get(bagId)
    if (content === undefined) throw new DriveError('gone', 'No such bag.', { status: 404 })
    if (start > 0 && start >= content.length) {
      throw new DriveError('bad-request', 'Range not satisfiable.', { status: 416 })
    }
    return this.#answer(content, start, fault, request)
  }

  #refuseEnded(end: number | undefined): void {
    const { endedRangeError } = this.#options
    if (end !== undefined && endedRangeError !== undefined) throw endedRangeError
  }

  #answer(content: Uint8Array, start: number, fault: Fault, request: Request): Download {
    const { bagId } = request
    const wanted = content.subarray(start, start > 0 ? request.end : undefined)
    const body = Readable.from(this.#bytes(wanted, start, fault, request), {
      objectMode: false,
    })
    request.body = body
    const tellsEnd = fault.end !== false
    const tellsLength = tellsEnd && this.#options.length !== false && fault.length !== false
    return {
      start,
      totalLength: fault.totalLength ?? (tellsLength ? content.length : undefined),
      isDecoded: false,
      isEndTold: tellsEnd,
      acceptsRanges: start > 0 || this.#options.announcesRanges === true,
      contentType: fault.contentType ?? 'application/octet-stream',
      fileName: fault.fileName === null ? undefined : `${bagId}.bin`,
      etag: fault.etag ?? this.#options.etag,
      body,
    }
  }

  async *#bytes(
    content: Uint8Array,
    start: number,
    fault: Fault,
    request: Request,
  ): AsyncGenerator<Uint8Array> {
    const size = this.#options.chunkBytes ?? 64 * 1024
    const stopAt = Math.min(fault.cutAfter ?? Infinity, fault.endAfter ?? Infinity, content.length)
    for (let at = 0; at < stopAt;) {
      while (start + at >= this.#gateAt) await this.#gate
      const end = Math.min(at + size, stopAt, Math.max(at + 1, this.#gateAt - start))
      await fault.beforeChunk?.(start + at)
      request.sent += end - at
      yield content.subarray(at, end)
      at = end
    }
    if (fault.cutAfter !== undefined && fault.cutAfter <= content.length) {
      throw new DriveError('unavailable', 'The connection was cut.')
    }
  }
}

/** Time that passes only where code waits for it, and not before `advance`. */
export class FakeClock implements Clock {
  #now = 1_700_000_000_000
  readonly #timers = new Set<{ at: number; task: () => void }>()
  /** When true, sleeps end at once (after moving the time). */
  isFast = true

  now(): number {
    return this.#now
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (this.isFast) {
      await new Promise((resolve) => setImmediate(resolve))
      if (signal?.aborted === true) throw signal.reason
      return
    }
    await new Promise<void>((resolve, reject) => {
      const cancel = this.after(ms, resolve)
      signal?.addEventListener('abort', () => {
        cancel()
        reject(signal.reason as Error)
      })
    })
  }

  after(ms: number, task: () => void): () => void {
    const timer = { at: this.#now + ms, task }
    this.#timers.add(timer)
    return () => {
      this.#timers.delete(timer)
    }
  }

  get waiting(): number {
    return this.#timers.size
  }

  advance(ms: number): void {
    this.#now += ms
    for (const timer of [...this.#timers]) {
      if (timer.at > this.#now) continue
      this.#timers.delete(timer)
      timer.task()
    }
  }
}

export class MemoryFacts implements FactsAccess {
  readonly known = new Map<BagId, BagFacts>()

  get(bagId: BagId): BagFacts | undefined {
    return this.known.get(bagId)
  }

  learn(bagId: BagId, facts: BagFacts): void {
    this.known.set(bagId, { ...this.known.get(bagId), ...facts })
  }
}

/** A log that is kept, to be asked about. */
export class KeptLog implements Logger {
  readonly lines: { level: string; fields: Readonly<Record<string, unknown>>; message: string }[] =
    []
  readonly debug = this.#keep('debug')
  readonly info = this.#keep('info')
  readonly warn = this.#keep('warn')
  readonly error = this.#keep('error')

  #keep(level: string) {
    return (fields: Readonly<Record<string, unknown>>, message: string): void => {
      this.lines.push({ level, fields, message })
    }
  }
}

export const sha256 = (bytes: Uint8Array): string =>
  createHash('sha256').update(bytes).digest('hex')

export const id = (digit: string): BagId => toBagId(digit.repeat(64).slice(0, 64))

export interface Setup {
  readonly dir: string
  readonly cache: BagCache
  readonly service: FakeDownloads
  readonly clock: FakeClock
  readonly facts: MemoryFacts
  readonly log: KeptLog
  /** Opens the same directory again, as another process would. */
  readonly reopen: (
    settings?: Partial<BagCacheSettings>,
    pinned?: readonly BagId[],
  ) => Promise<BagCache>
}

export interface SetupOptions extends SourceOptions {
  readonly settings?: Partial<BagCacheSettings>
  readonly freeBytes?: (dir: string) => Promise<number>
  readonly readDispatcher?: ReadDispatcher
  /** How many streams bring a bag from the start. */
  readonly streams?: number
}

const cleanups: (() => Promise<void>)[] = []

/** As found out on a line where each of so many streams got the same. */
export function countOf(clock: FakeClock, wanted: number): StreamCount {
  const count = new StreamCount(clock)
  while (count.wanted < wanted) {
    clock.advance(100)
    count.came(count.wanted * 200_000, count.wanted)
  }
  return count
}

/** Call after each test. */
export async function cleanUp(): Promise<void> {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
}

export async function makeDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'bagfs-content-'))
  cleanups.push(() => rm(dir, { recursive: true, force: true }))
  return dir
}

export async function setUp(options: SetupOptions = {}): Promise<Setup> {
  const dir = await makeDir()
  const service = new FakeDownloads(options)
  const clock = new FakeClock()
  const facts = new MemoryFacts()
  const log = new KeptLog()
  const dependencies: BagCacheDependencies = {
    service,
    clock,
    facts,
    log,
    listedSizes: (bagId) => service.listedSizes(bagId),
    ...(options.freeBytes !== undefined && { freeBytes: options.freeBytes }),
    count: countOf(clock, options.streams ?? 1),
    ...(options.readDispatcher !== undefined && { readDispatcher: options.readDispatcher }),
  }
  const reopen: Setup['reopen'] = async (settings = {}, pinned = []) => {
    const cache = await BagCache.open(
      { ...dependencies, pinned },
      {
        dir: join(dir, 'cache'),
        maxBytes: 1e9,
        minFreeBytes: 0,
        graceMs: 5000,
        resumeTries: 3,
        silenceMs: 30_000,
        ...options.settings,
        ...settings,
      },
    )
    cleanups.push(async () => {
      service.openGate()
      await cache.close()
    })
    return cache
  }
  return { dir, cache: await reopen(), service, clock, facts, log, reopen }
}

export async function readAll(reader: BagReader, step = 100_000): Promise<Buffer> {
  const parts: Buffer[] = []
  for (let position = 0; ;) {
    const buffer = Buffer.alloc(step)
    const count = await reader.read(buffer, position)
    if (count === 0) return Buffer.concat(parts)
    parts.push(buffer.subarray(0, count))
    position += count
  }
}

export async function readSome(
  reader: BagReader,
  position: number,
  length: number,
): Promise<Buffer> {
  const buffer = Buffer.alloc(length)
  const count = await reader.read(buffer, position)
  return buffer.subarray(0, count)
}
