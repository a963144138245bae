import type { BagCache } from '../../content/bag-cache.ts'
import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import { toBagId, type BagId } from '../../domain/ids.ts'
import type { Listing } from '../../namespace/listing.ts'
import type { StorageService } from '../../service/storage-service.ts'
import {
  fixedDirectory,
  type VirtualDirectory,
  type VirtualEntry,
  type VirtualFile,
} from './virtual-entry.ts'

export interface BagsDeps {
  readonly service: Pick<StorageService, 'addById'>
  readonly listing: Listing
  readonly cache: BagCache
  readonly clock: Clock
}

const BAG_ID = /^[0-9a-f]{64}$/
/** A kernel that asked for a directory wants to see one, for as long as it trusts an answer. */
const SHOWN_AS_DIRECTORY_MS = 2_000

/**
 * `.bags`: any bag by its id, as the service hands it out (a folder is its zip), also one that is not
 * in the account's listing. Making an id that is not there yet imports it. Lists nothing.
 */
export class BagsDirectory implements VirtualDirectory {
  readonly kind = 'directory'
  readonly #deps: BagsDeps
  /** Ids asked for, so that one has one node; about 200 bytes for each. */
  readonly #files = new Map<BagId, VirtualFile>()
  /** Ids just imported by mkdir, with when they become files; each entry removes itself. */
  readonly #asDirectories = new Map<string, VirtualEntry>()

  constructor(deps: BagsDeps) {
    this.#deps = deps
  }

  names(): readonly string[] {
    return []
  }

  find(name: string): VirtualEntry | undefined {
    if (!BAG_ID.test(name)) return undefined
    return this.#asDirectories.get(name) ?? this.#file(toBagId(name))
  }

  async add(name: string, kind: 'file' | 'directory'): Promise<void> {
    if (!BAG_ID.test(name)) {
      throw new DriveError('invalid', 'A bag id is 64 digits 0-9 and a-f.')
    }
    await this.#import(toBagId(name))
    if (kind === 'file') return
    this.#asDirectories.set(name, fixedDirectory(new Map()))
    this.#deps.clock.after(SHOWN_AS_DIRECTORY_MS, () => {
      this.#asDirectories.delete(name)
    })
  }

  #file(bagId: BagId): VirtualFile {
    let file = this.#files.get(bagId)
    if (file === undefined) {
      file = {
        kind: 'file',
        open: () => this.#open(bagId),
        touch: async () => {
          if (this.#record(bagId) === undefined) await this.#import(bagId)
        },
      }
      this.#files.set(bagId, file)
    }
    return file
  }

  async #open(bagId: BagId) {
    const record = this.#record(bagId)
    const listed = record?.size === undefined ? {} : { listedLength: record.size }
    const source = this.#deps.cache.open(bagId, listed)
    try {
      const size = await source.length()
      return { source, size, mtimeMs: record?.uploadedAtMs ?? 0 }
    } catch (error) {
      source.close()
      throw error
    }
  }

  /** The imported bag shows in the drive as soon as the service lists it. */
  async #import(bagId: BagId): Promise<void> {
    await this.#deps.service.addById(bagId)
    await this.#deps.listing.refreshNow()
  }

  #record(bagId: BagId) {
    return this.#deps.listing.current()?.index.recordsOf(bagId)[0]
  }
}
