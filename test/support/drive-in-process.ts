import { join } from 'node:path'
import { BagCache } from '../../src/content/bag-cache.ts'
import { CONTENT_PATIENCE, deadlinesOf } from '../../src/mount/open-service.ts'
import { systemClock } from '../../src/domain/clock.ts'
import type { HandleId, NodeId } from '../../src/domain/ids.ts'
import { silentLogger } from '../../src/domain/logger.ts'
import { Drive } from '../../src/drive/drive.ts'
import { InflatedFiles } from '../../src/drive/folders/inflated-files.ts'
import { ROOT } from '../../src/drive/tree/nodes.ts'
import { Listing } from '../../src/namespace/listing.ts'
import { Outbox } from '../../src/outbox/outbox.ts'
import { isToSend } from '../../src/intents/rules.ts'
import { Uploader } from '../../src/outbox/uploader.ts'
import type { StorageService } from '../../src/service/storage-service.ts'
import { createHttpService } from '../../src/service/http-service.ts'
import { FactsStore } from '../../src/state/facts-store.ts'
import { FolderNamesStore } from '../../src/state/folder-names-store.ts'
import { ListingStore } from '../../src/state/listing-store.ts'

/** Where a drive in this process gets its account and keeps its state. */
export interface DriveHome {
  readonly url: string
  readonly token: string
  readonly dir: string
  readonly writeBack: boolean
  readonly limits?: DriveLimits
}

export interface DriveLimits {
  /** How long the service may be silent, as `--timeout`. */
  readonly timeoutMs: number
  readonly cacheBytes: number
}

/** A service with the deadlines that a mount gives it. */
export function serviceOf({ url, token, limits }: DriveHome): StorageService {
  const base = { clock: systemClock, log: silentLogger }
  const deadlines = limits === undefined ? {} : deadlinesOf(limits.timeoutMs)
  return createHttpService(base, { baseUrl: url, token, retries: 1, ...deadlines })
}

/** A whole drive without a kernel in between: everything real but the mount. */
export class DriveInProcess {
  readonly drive: Drive
  readonly listing: Listing
  readonly outbox: Outbox
  readonly #uploader: Uploader
  readonly #closers: (() => Promise<void>)[]

  private constructor(
    parts: { drive: Drive; listing: Listing; outbox: Outbox; uploader: Uploader },
    closers: (() => Promise<void>)[],
  ) {
    this.drive = parts.drive
    this.listing = parts.listing
    this.outbox = parts.outbox
    this.#uploader = parts.uploader
    this.#closers = closers
  }

  static async open(home: DriveHome): Promise<DriveInProcess> {
    const base = { clock: systemClock, log: silentLogger }
    const { dir, limits = { timeoutMs: 10_000, cacheBytes: 1e8 } } = home
    const service = serviceOf(home)
    const facts = await FactsStore.open(base, { dir })
    const folderNames = await FolderNamesStore.open(base, { dir })
    const outbox = await Outbox.open(base, { dir: join(dir, 'outbox') })
    const kindOf = (bagId: Parameters<FactsStore['get']>[0]) => facts.get(bagId)?.kind
    const listing = await Listing.open(
      { ...base, service, store: new ListingStore(dir), kindOf },
      { ttlMs: 60_000, waitMs: 1_000 },
    )
    const cache = await BagCache.open(
      { ...base, service, facts, listedSizes: (bagId) => listing.sizesOf(bagId) },
      {
        dir: join(dir, 'cache'),
        maxBytes: limits.cacheBytes,
        minFreeBytes: 0,
        graceMs: 10,
        resumeTries: 1,
        silenceMs: CONTENT_PATIENCE * limits.timeoutMs,
      },
    )
    const inflated = await InflatedFiles.open({
      dir: join(dir, 'inflated'),
      maxBytes: 1e7,
      room: cache.room,
    })
    const later: { drive?: Drive } = {}
    const folders = (): Drive['folders'] => {
      if (later.drive === undefined) throw new Error('The drive is not built yet.')
      return later.drive.folders
    }
    const uploader = new Uploader(
      {
        ...base,
        outbox,
        service,
        listing,
        content: cache,
        facts,
        isShown: (bagId) => later.drive?.shows(bagId) === true,
        folders: {
          pack: (put, path, options) => folders().pack(put, path, options),
          committed: (put, bagId) => folders().committed(put, bagId),
        },
      },
      { concurrency: 8, retryBaseMs: 20, retryMaxMs: 100, listingLagMs: 100, durable: false },
    )
    const drive = new Drive(
      { ...base, service, listing, cache, inflated, outbox, uploader, facts, folderNames },
      {
        writeBack: home.writeBack,
        readOnly: false,
        description: '',
        umask: 0o022,
        holdMs: 60_000,
        folderSettleMs: 3_600_000,
        listingLagMs: 600_000,
        usualLagMs: 100,
      },
    )
    later.drive = drive
    const closers = [
      () => uploader.close(),
      () => drive.close(),
      () => listing.close(),
      () => cache.close(),
      () => outbox.close(),
      () => facts.close(),
      () => folderNames.close(),
      () => service.close(),
    ]
    await drive.start()
    uploader.start()
    return new DriveInProcess({ drive, listing, outbox, uploader }, closers)
  }

  /** Ends without sending or writing anything more, as a kill does to what is not on disk. */
  async drop(): Promise<void> {
    for (const close of this.#closers) await close()
  }

  /** Sends everything; throws when something cannot be sent. */
  async drain(): Promise<void> {
    await this.drive.commitAll()
    await this.#uploader.drain(AbortSignal.timeout(20_000))
    const left = this.outbox.intents().filter(isToSend)
    if (left.length > 0) throw new Error(`Not sent: ${JSON.stringify(left)}`)
  }

  async node(path: string): Promise<NodeId> {
    let node = ROOT
    for (const name of path.split('/')) node = (await this.drive.lookup(node, name)).node
    return node
  }

  async parent(path: string): Promise<{ parent: NodeId; name: string }> {
    const names = path.split('/')
    const name = names.pop() ?? ''
    return { parent: names.length === 0 ? ROOT : await this.node(names.join('/')), name }
  }

  async open(path: string, truncate = false): Promise<HandleId> {
    return this.drive.open(await this.node(path), { writable: truncate, truncate })
  }

  async readAll(handle: HandleId): Promise<string> {
    const chunks: Buffer[] = []
    for (let position = 0; ;) {
      const buffer = Buffer.alloc(64)
      const count = await this.drive.read(handle, buffer, position)
      if (count === 0) return Buffer.concat(chunks).toString()
      chunks.push(buffer.subarray(0, count))
      position += count
    }
  }

  async read(path: string): Promise<string> {
    const handle = await this.open(path)
    try {
      return await this.readAll(handle)
    } finally {
      await this.drive.release(handle)
    }
  }

  /** Every file by its path, with its content; an empty directory with `null`. */
  async tree(): Promise<Record<string, string | null>> {
    const found: Record<string, string | null> = {}
    const visit = async (node: NodeId, prefix: string): Promise<void> => {
      const entries = await this.drive.readDirectory(node)
      if (entries.length === 0 && prefix !== '') found[prefix.slice(0, -1)] = null
      for (const { name } of entries) {
        const attributes = await this.drive.lookup(node, name)
        if (attributes.kind === 'directory') await visit(attributes.node, `${prefix}${name}/`)
        else found[prefix + name] = await this.read(prefix + name)
      }
    }
    await visit(ROOT, '')
    return found
  }
}
