import { parseServiceUrl } from '../config/service-url.ts'
import { systemClock } from '../domain/clock.ts'
import { makeClosing } from '../domain/closing.ts'
import { DriveError } from '../domain/errors.ts'
import { isBagId, toBagId, type BagId } from '../domain/ids.ts'
import { silentLogger, type Logger } from '../domain/logger.ts'
import type { Account, BagRecord } from '../domain/record.ts'
import { follow } from '../service/follow.ts'
import { createHttpService } from '../service/http-service.ts'
import { deadlinesOf } from '../service/settings.ts'
import type {
  CallOptions,
  Download,
  DownloadOptions,
  StorageService,
  UploadOptions,
} from '../service/storage-service.ts'
import { withUploadFile, type UploadContent } from './upload-content.ts'

/** Which account, and how patiently. */
export interface ConnectOptions {
  /** Base URL of the service, such as `https://app.openfiles.xyz`. */
  readonly url: string
  /** The API token of the service's dashboard. It is in no error and no log. */
  readonly token: string
  /** How long the service may be silent, in milliseconds; three times that while it moves content. 10,000 by default. */
  readonly timeoutMs?: number
  /** Told of repeats and of records that cannot be used; nothing is logged without it. */
  readonly log?: Logger
}

/** How a bag is made. */
export interface PutOptions extends UploadOptions {
  /** Description of the new bag; none by default. */
  readonly description?: string
}

/**
 * An account of the storage service: its seven endpoints. Every failure is a `DriveError`, but for those of a stream
 * that is given.
 *
 * A call is repeated only while it is certain that the service did not carry it out. Otherwise it rejects with
 * `facts.answerLost`, and the listing tells what happened.
 */
export interface Client {
  /** Whose account it is, and its space. */
  account(options?: CallOptions): Promise<Account>
  /** All bags of the account. */
  list(options?: CallOptions): Promise<readonly BagRecord[]>
  /** Stores a file; resolves with the id of its bag. */
  uploadFile(name: string, content: UploadContent, options?: PutOptions): Promise<BagId>
  /** Stores a folder, given as its zip; resolves with the id of its bag. `name` is without `.zip`. */
  uploadFolder(name: string, zip: UploadContent, options?: PutOptions): Promise<BagId>
  /**
   * Resolves when the head of the answer is here. Read its `body` to the end or destroy it: 8 downloads run at a time.
   * A folder comes as its zip. Rejects `gone` when the service has no such bag.
   */
  download(bagId: string, options?: DownloadOptions): Promise<Download>
  /** Adds a bag of the network to the account. */
  addById(bagId: string, options?: CallOptions): Promise<void>
  /** Deletes a bag, for good. Resolves also when it was gone already. */
  delete(bagId: string, options?: CallOptions): Promise<void>
  /** Ends what is under way (`interrupted`) and closes the connections. */
  close(): Promise<void>
}

/**
 * A client of an account. Nothing is sent before the first call. Throws a `DriveError` `usage` for a URL or a token that
 * cannot be one.
 */
export function connect({ url, token, timeoutMs, log = silentLogger }: ConnectOptions): Client {
  const service = createHttpService(
    { log, clock: systemClock },
    {
      baseUrl: parseServiceUrl(url),
      token,
      ...(timeoutMs === undefined ? {} : deadlinesOf(timeoutMs)),
    },
  )
  return new ServiceClient(service)
}

class ServiceClient implements Client {
  readonly #service: StorageService
  /** Ends what the service does not know of yet: a stream that is still read. */
  readonly #closing = makeClosing()

  constructor(service: StorageService) {
    this.#service = service
  }

  account(options: CallOptions = {}): Promise<Account> {
    return this.#service.getAccount(options)
  }

  list(options: CallOptions = {}): Promise<readonly BagRecord[]> {
    return this.#service.listFiles(options)
  }

  uploadFile(name: string, content: UploadContent, options?: PutOptions): Promise<BagId> {
    return this.#upload('uploadFile', name, content, options)
  }

  uploadFolder(name: string, zip: UploadContent, options?: PutOptions): Promise<BagId> {
    return this.#upload('uploadFolder', name, zip, options)
  }

  async #upload(
    how: 'uploadFile' | 'uploadFolder',
    name: string,
    content: UploadContent,
    { description = '', ...sending }: PutOptions = {},
  ): Promise<BagId> {
    const { signal, dispose } = follow(sending.signal, this.#closing.signal)
    try {
      return await withUploadFile(content, signal, (file) =>
        this.#service[how]({ ...file, name, description }, sending),
      )
    } finally {
      dispose()
    }
  }

  async download(bagId: string, options: DownloadOptions = {}): Promise<Download> {
    return this.#service.download(parseBagId(bagId), options)
  }

  async addById(bagId: string, options: CallOptions = {}): Promise<void> {
    await this.#service.addById(parseBagId(bagId), options)
  }

  async delete(bagId: string, options: CallOptions = {}): Promise<void> {
    await this.#service.deleteBag(parseBagId(bagId), options)
  }

  close(): Promise<void> {
    this.#closing.abort()
    return this.#service.close()
  }
}

function parseBagId(text: string): BagId {
  if (isBagId(text)) return toBagId(text)
  throw new DriveError('usage', 'This cannot be the id of a bag.', {
    hint: 'An id is text of 1 to 1,024 characters, as the listing has it.',
  })
}
