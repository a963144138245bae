import { makeClosing } from '../domain/closing.ts'
import type { Clock } from '../domain/clock.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { Account, BagRecord } from '../domain/record.ts'
import { ACCEPTED_ENCODINGS, readJson, strange } from './answer-body.ts'
import {
  isAdded,
  parseAccount,
  parseDeleted,
  parseUploaded,
  type SkippedRecord,
} from './answers.ts'
import { Auth } from './auth.ts'
import { Caller, type Call } from './caller.ts'
import { rangeHeader, toDownload, type WantedRange } from './download.ts'
import type {
  CallOptions,
  DeleteOptions,
  Download,
  DownloadOptions,
  StorageService,
  UploadOptions,
  UploadSource,
} from './storage-service.ts'
import type { Answer, ExchangeLimits } from './exchange.ts'
import { follow } from './follow.ts'
import { openForm } from './multipart.ts'
import { makeRedact, type Redact } from './redact.ts'
import { ListingReader } from './listing-reader.ts'
import { resolveSettings, type HttpServiceSettings, type Resolved } from './settings.ts'
import { Slots } from './slots.ts'
import { SteadyPool } from './steady-pool.ts'
import type { Endpoint, WireMeter } from './wire-meter.ts'

export type { HttpServiceSettings } from './settings.ts'

export interface HttpServiceDependencies {
  readonly log: Logger
  readonly clock: Clock
  readonly meter?: WireMeter
}

/**
 * The service over HTTP (docs/SERVICE.md). Throws `usage` for settings
 * that cannot be used; opens no connection until the first call.
 */
export function createHttpService(
  deps: HttpServiceDependencies,
  settings: HttpServiceSettings,
): StorageService {
  return new HttpService(deps, resolveSettings(settings))
}

/** An answer about one bag or the account is small. */
const SMALL_ANSWER_BYTES = 1024 * 1024

class HttpService implements StorageService {
  readonly #log: Logger
  readonly #settings: Resolved
  readonly #redact: Redact
  readonly #pool: SteadyPool
  readonly #caller: Caller
  readonly #uploads: Slots
  readonly #downloads: Slots
  readonly #shortCalls: Slots
  readonly #listing: ListingReader
  readonly #clock: Clock
  readonly #closing = makeClosing()

  constructor({ log, clock, ...metered }: HttpServiceDependencies, settings: Resolved) {
    const { maxUploads, maxDownloads, maxConnections, connectTimeoutMs } = settings
    this.#log = log
    this.#clock = clock
    this.#settings = settings
    this.#listing = new ListingReader({
      clock,
      onSkipped: (skipped, count) => {
        this.#warn(skipped, count)
      },
    })
    this.#pool = new SteadyPool(settings.origin, {
      connections: maxConnections,
      connectTimeoutMs,
    })
    const auth = new Auth(settings)
    const redact = makeRedact(auth.tokens)
    this.#redact = redact
    this.#caller = new Caller({ pool: this.#pool, clock, log, redact, auth, ...metered }, settings)
    this.#uploads = new Slots(maxUploads)
    this.#downloads = new Slots(maxDownloads)
    this.#shortCalls = new Slots(maxConnections - maxUploads - maxDownloads)
  }

  uploadFile(source: UploadSource, options: UploadOptions = {}): Promise<BagId> {
    const part = { fileName: source.name, contentType: 'application/octet-stream' }
    return this.#upload('upload_file', source, part, options)
  }

  uploadFolder(source: UploadSource, options: UploadOptions = {}): Promise<BagId> {
    const part = { fileName: `${source.name}.zip`, contentType: 'application/zip' }
    return this.#upload('upload_folder', source, part, options)
  }

  addById(bagId: BagId, options: CallOptions = {}): Promise<void> {
    const { answerMs } = this.#limits()
    return this.#short(`Importing bag ${bagId}`, options, async (what, signal) => {
      const call: Call = {
        what,
        endpoint: 'import',
        method: 'POST',
        path: '/api/bag/add_by_id',
        headers: { ...JSON_WANTED, 'content-type': 'application/x-www-form-urlencoded' },
        body: Buffer.from(new URLSearchParams({ bag_id: bagId }).toString()),
        limits: { ...this.#limits(), answerMs },
        signal,
      }
      await this.#caller.send(call, async (answer) => {
        if (!isAdded(await this.#json(answer))) throw strange(answer, 'its answer is no message.')
      })
    })
  }

  async download(bagId: BagId, options: DownloadOptions = {}): Promise<Download> {
    const wanted = checkRange(options.range)
    const { signal, dispose } = follow(options.signal, this.#closing.signal)
    const release = await this.#downloads.take(signal).catch((error: unknown) => {
      dispose()
      throw error
    })
    const letGo = (): void => {
      dispose()
      release()
    }
    try {
      options.onBegin?.()
      const limits = { ...this.#limits(), ...options.limits }
      const how = { limits, signal, isLength: options.isLength }
      const download = await this.#startDownload(bagId, wanted, how)
      download.body.once('close', letGo)
      if (download.body.closed) letGo()
      return download
    } catch (error) {
      letGo()
      throw error
    }
  }

  deleteBag(bagId: BagId, options: DeleteOptions = {}): Promise<void> {
    return this.#short(`Deleting bag ${bagId}`, options, async (what, signal, aside) => {
      const { mayRepeat } = options
      const call: Call = {
        ...options,
        // It may need a call, and so a slot, of its own.
        ...(mayRepeat === undefined ? {} : { mayRepeat: () => aside(mayRepeat) }),
        what,
        endpoint: 'delete',
        method: 'DELETE',
        path: '/api/bag',
        headers: { ...JSON_WANTED, 'content-type': 'application/json' },
        body: Buffer.from(JSON.stringify({ bag_id: bagId })),
        limits: this.#shortLimits(),
        signal,
      }
      try {
        await this.#caller.send(call, async (answer) => {
          checkDeleted(answer, await this.#json(answer))
        })
      } catch (error) {
        if (!isDriveError(error, 'gone')) throw error
      }
    })
  }

  listFiles(options: CallOptions = {}): Promise<readonly BagRecord[]> {
    const limits = { ...this.#limits(), answerMs: this.#settings.metadataTimeoutMs }
    return this.#short('Listing the files', options, (what, signal) =>
      this.#caller.send(
        get({ what, endpoint: 'list', path: '/api/user/files_list', limits, signal }),
        (answer) => this.#listing.read(answer, limits.stallMs),
      ),
    )
  }

  #warn(skipped: readonly SkippedRecord[], count: number): void {
    for (const { index, name, reason } of skipped) {
      const fields = { index, name: this.#redact(name), reason }
      this.#log.warn(fields, 'A record of the listing cannot be used and is skipped.')
    }
    const more = count - skipped.length
    if (more > 0) this.#log.warn({ more }, 'More records of the listing cannot be used.')
  }

  /** The JSON of an answer about one bag or the account, which is here in the time of a short call. */
  #json(answer: Answer): Promise<unknown> {
    const limits = { maxBytes: SMALL_ANSWER_BYTES, limitMs: this.#settings.metadataTimeoutMs }
    return readJson(this.#clock, answer, limits)
  }

  getAccount(options: CallOptions = {}): Promise<Account> {
    return this.#short('Reading the account', options, (what, signal) => {
      const limits = this.#shortLimits()
      const call = get({ what, endpoint: 'account', path: '/api/user', limits, signal })
      return this.#caller.send(call, async (answer) => {
        const account = parseAccount(await this.#json(answer))
        if (account === undefined) throw strange(answer, 'its answer is no user record.')
        return account
      })
    })
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#pool.destroy()
  }

  async #upload(
    endpoint: keyof typeof UPLOADS,
    source: UploadSource,
    part: { readonly fileName: string; readonly contentType: string },
    options: UploadOptions,
  ): Promise<BagId> {
    checkName(source.name)
    return this.#within(this.#uploads, options, async (signal) => {
      const form = await openForm({ ...source, ...part })
      try {
        const send = (description: string): Promise<BagId> => {
          const call: Call = {
            what: `Uploading "${source.name}"`,
            endpoint,
            method: 'POST',
            path: UPLOADS[endpoint],
            headers: { ...JSON_WANTED, 'content-type': form.contentType },
            body: form.body(description, options.onProgress ?? ignore),
            limits: this.#limits(),
            signal,
          }
          return this.#caller.send(call, async (answer) =>
            toUploaded(answer, await this.#json(answer)),
          )
        }
        return await send(source.description).catch((error: unknown) => {
          if (source.description === '' && isDescriptionWanted(error)) return send(source.name)
          throw error
        })
      } finally {
        await form.close()
      }
    })
  }

  /** A range that the service cannot give (416) is beyond the end of what we thought: the whole tells. */
  async #startDownload(bagId: BagId, wanted: WantedRange, how: DownloadHow): Promise<Download> {
    try {
      return await this.#downloadOnce(bagId, wanted, how)
    } catch (error) {
      if (!isDriveError(error) || error.facts.status !== 416) throw error
      return this.#downloadOnce(bagId, { start: 0, end: undefined }, how)
    }
  }

  #downloadOnce(
    bagId: BagId,
    wanted: WantedRange,
    { limits, signal, isLength }: DownloadHow,
  ): Promise<Download> {
    const range = rangeHeader(wanted)
    const path = `/api/bag/download/${toPathSegment(bagId)}`
    const call: Call = {
      ...get({ what: `Downloading bag ${bagId}`, endpoint: 'download', path, limits, signal }),
      headers: {
        accept: '*/*',
        'accept-encoding': 'identity',
        ...(range === undefined ? {} : { range }),
      },
    }
    return this.#caller.send(call, (answer) => toDownload(answer, wanted, isLength))
  }

  #short<T>(
    what: string,
    options: CallOptions,
    task: (what: string, signal: AbortSignal, aside: Aside) => Promise<T>,
  ): Promise<T> {
    return this.#within(this.#shortCalls, options, (signal, aside) => task(what, signal, aside))
  }

  async #within<T>(
    slots: Slots,
    options: CallOptions,
    task: (signal: AbortSignal, aside: Aside) => Promise<T>,
  ): Promise<T> {
    const { signal, dispose } = follow(options.signal, this.#closing.signal)
    try {
      let release = await slots.take(signal)
      const aside: Aside = async (work) => {
        release()
        const result = await work()
        release = await slots.take(signal)
        return result
      }
      try {
        options.onBegin?.()
        return await task(signal, aside)
      } finally {
        release()
      }
    } finally {
      dispose()
    }
  }

  #limits(): ExchangeLimits {
    const { connectTimeoutMs, firstByteTimeoutMs, stallTimeoutMs } = this.#settings
    return { connectMs: connectTimeoutMs, answerMs: firstByteTimeoutMs, stallMs: stallTimeoutMs }
  }

  #shortLimits(): ExchangeLimits {
    const { metadataTimeoutMs } = this.#settings
    return { ...this.#limits(), answerMs: metadataTimeoutMs, wholeMs: metadataTimeoutMs }
  }
}

/** Does something without the slot of the call that it belongs to. */
type Aside = <T>(work: () => Promise<T>) => Promise<T>

interface DownloadHow extends Pick<Call, 'limits' | 'signal'> {
  readonly isLength: DownloadOptions['isLength']
}

const JSON_WANTED = { accept: 'application/json', 'accept-encoding': ACCEPTED_ENCODINGS }

const UPLOADS = {
  upload_file: '/api/files/upload',
  upload_folder: '/api/folders/upload',
} as const satisfies Partial<Record<Endpoint, string>>

const ignore = (): void => undefined

function get(call: Omit<Call, 'method' | 'headers' | 'body'>): Call {
  return { ...call, method: 'GET', headers: JSON_WANTED }
}

function toUploaded(answer: Answer, json: unknown): BagId {
  const bagId = parseUploaded(json)
  if (bagId === undefined) throw strange(answer, 'its answer names no bag.')
  return bagId
}

function checkDeleted(answer: Answer, json: unknown): void {
  const success = parseDeleted(json)
  if (success === undefined) throw strange(answer, 'its answer does not say whether it is done.')
  if (!success) throw answer.error('server-error', 'the service says that it did not do it.')
}

function isDescriptionWanted(error: unknown): boolean {
  return isDriveError(error, 'rejected') && (error.facts.fields ?? []).includes('description')
}

/** Throws `bad-name` for what is not sent: what the service makes of it is not known. A program without types may give anything. */
function checkName(name: unknown): void {
  const isText = typeof name === 'string' && Buffer.from(name).toString() === name
  if (isText && name !== '' && !/[/\0]/.test(name)) return
  throw new DriveError(
    'bad-name',
    `${JSON.stringify(name)} cannot be the name of an upload: it must be text, not empty, without "/" and NUL.`,
  )
}

function checkRange(range: DownloadOptions['range']): WantedRange {
  const { start, end } = { start: 0, end: undefined, ...range }
  const isSound = Number.isSafeInteger(start) && start >= 0
  const isEndSound = end === undefined || (Number.isSafeInteger(end) && end > start)
  if (isSound && isEndSound) return { start, end }
  throw new DriveError('invalid', `${start} to ${end ?? 'the end'} is no range of bytes.`)
}

/** `.` and `..` would be taken for steps of the path. */
function toPathSegment(bagId: BagId): string {
  return /^\.+$/.test(bagId) ? bagId.replaceAll('.', '%2E') : encodeURIComponent(bagId)
}
