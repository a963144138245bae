import { buildDrive, TUNING, type BuiltDrive, type Tuning } from '../../src/mount/build-drive.ts'
import { Releases } from '../../src/mount/releases.ts'
import type { BagCache } from '../../src/content/bag-cache.ts'
import { systemClock, type Clock } from '../../src/domain/clock.ts'
import { isDriveError } from '../../src/domain/errors.ts'
import type { HandleId, NodeId } from '../../src/domain/ids.ts'
import { silentLogger } from '../../src/domain/logger.ts'
import type { Drive } from '../../src/drive/drive.ts'
import { ROOT } from '../../src/drive/tree/nodes.ts'
import type { Listing } from '../../src/namespace/listing.ts'
import type { Outbox } from '../../src/outbox/outbox.ts'
import { isToSend } from '../../src/intents/rules.ts'
import type { Trash } from '../../src/trash/trash.ts'
import type { StorageService } from '../../src/service/storage-service.ts'
import { createHttpService } from '../../src/service/http-service.ts'
import { deadlinesOf } from '../../src/service/settings.ts'

const BASE = { clock: systemClock, log: silentLogger }

const SETTINGS = {
  readOnly: false,
  description: '',
  umask: 0o022,
  folderRestMs: 3_600_000,
  keepDeletedMs: 86_400_000,
  fetchDeletedBytes: 16 * 1024 * 1024,
  listingTtlMs: 60_000,
  listingLagMs: 100,
  minFreeBytes: 0,
}

/** A mount's, but for waits that tests need not sit through. */
export const QUICK: Tuning = {
  ...TUNING,
  uploads: { ...TUNING.uploads, retryBaseMs: 20, retryMaxMs: 100, deletingMs: 200 },
  pins: { followMs: 50, forgetMs: 300 },
  graceMs: 10,
  resumeTries: 1,
}

/** Where a drive in this process gets its account and keeps its state. */
export interface DriveHome {
  readonly url: string
  readonly token: string
  readonly dir: string
  readonly writeBack: boolean
  readonly limits?: DriveLimits
  readonly settings?: Partial<typeof SETTINGS>
  readonly tuning?: Partial<Tuning>
  /** Undefined for that of the machine. */
  readonly clock?: Clock
}

export interface DriveLimits {
  /** How long the service may be silent, as `--timeout`. */
  readonly timeoutMs: number
  readonly cacheBytes: number
}

/** A service with the deadlines that a mount gives it. */
export function serviceOf({ url, token, limits }: DriveHome): StorageService {
  const deadlines = limits === undefined ? {} : deadlinesOf(limits.timeoutMs)
  return createHttpService(BASE, { baseUrl: url, token, retries: 1, ...deadlines })
}

/** A whole drive without a kernel in between: everything real but the mount. */
export class DriveInProcess {
  readonly drive: Drive
  readonly listing: Listing
  readonly outbox: Outbox
  readonly cache: BagCache
  readonly trash: Trash
  readonly #releases: Releases

  private constructor({ drive, listing, outbox, cache, trash }: BuiltDrive, releases: Releases) {
    this.drive = drive
    this.listing = listing
    this.outbox = outbox
    this.cache = cache
    this.trash = trash
    this.#releases = releases
  }

  static async open(home: DriveHome): Promise<DriveInProcess> {
    const { dir, writeBack, limits = { timeoutMs: 30_000, cacheBytes: 1e8 } } = home
    const service = serviceOf(home)
    const releases = new Releases()
    releases.add('service', () => service.close())
    const built = await buildDrive(
      { ...BASE, clock: home.clock ?? BASE.clock, service },
      { ...SETTINGS, ...home.settings, ...limits, stateDir: dir, writeBack },
      releases,
      { ...QUICK, ...home.tuning },
    )
    await built.drive.start()
    built.drive.uploader.start()
    return new DriveInProcess(built, releases)
  }

  /** Ends without sending or writing anything more, as a kill does to what is not on disk. */
  async drop(): Promise<void> {
    await this.#releases.run(BASE)
  }

  /** Sends everything; throws when something cannot be sent. */
  async drain(): Promise<void> {
    await this.drive.commitAll()
    await this.drive.uploader.drain(AbortSignal.timeout(120_000))
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

  async makeDirectory(path: string): Promise<void> {
    const { parent, name } = await this.parent(path)
    await this.drive.makeDirectory(parent, name, 0o755)
  }

  async rename(from: string, to: string): Promise<void> {
    const source = await this.parent(from)
    const target = await this.parent(to)
    await this.drive.rename(source.parent, source.name, target.parent, target.name)
  }

  /** A file, or a directory with all that is in it. */
  async remove(path: string): Promise<void> {
    const { parent, name } = await this.parent(path)
    const { node, kind } = await this.drive.lookup(parent, name)
    if (kind !== 'directory') {
      await this.drive.unlink(parent, name)
      return
    }
    for (const each of await this.drive.readDirectory(node))
      await this.remove(`${path}/${each.name}`)
    await this.drive.removeDirectory(parent, name)
  }

  /** Names of a directory, sorted; of the root without a path. */
  async names(path?: string): Promise<readonly string[]> {
    const node = path === undefined ? ROOT : await this.node(path)
    return (await this.drive.readDirectory(node)).map(({ name }) => name).sort()
  }

  /** Behind what a file holds; closed when this resolves. */
  async append(path: string, content: string): Promise<void> {
    const node = await this.node(path)
    const handle = await this.drive.open(node, { writable: true, truncate: false })
    try {
      const { size } = await this.drive.getAttributes(node)
      await this.drive.write(handle, Buffer.from(content), size)
      await this.drive.flush(handle)
    } finally {
      await this.drive.release(handle)
    }
  }

  /** Makes a file of this content, or replaces what it has; closed when this resolves. */
  async write(path: string, content: string | Uint8Array): Promise<void> {
    const { parent, name } = await this.parent(path)
    const known = await this.drive.lookup(parent, name).catch((error: unknown) => {
      if (!isDriveError(error, 'not-found')) throw error
    })
    const handle =
      known === undefined
        ? (await this.drive.create(parent, name, 0o644)).handle
        : await this.drive.open(known.node, { writable: true, truncate: true })
    try {
      if (content.length > 0) await this.drive.write(handle, Buffer.from(content), 0)
      await this.drive.flush(handle)
    } finally {
      await this.drive.release(handle)
    }
  }

  async readAll(handle: HandleId): Promise<string> {
    return (await this.#bytesOf(handle)).toString()
  }

  async #bytesOf(handle: HandleId): Promise<Buffer> {
    const chunks: Buffer[] = []
    for (let position = 0; ;) {
      const buffer = Buffer.alloc(64)
      const count = await this.drive.read(handle, buffer, position)
      if (count === 0) return Buffer.concat(chunks)
      chunks.push(buffer.subarray(0, count))
      position += count
    }
  }

  async read(path: string): Promise<string> {
    return (await this.readBytes(path)).toString()
  }

  async readBytes(path: string): Promise<Buffer> {
    const handle = await this.open(path)
    try {
      return await this.#bytesOf(handle)
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
