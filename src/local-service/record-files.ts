import { readFileSync } from 'node:fs'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { NEW_SUFFIX, writeFileAtomic } from '../disk/atomic-file.ts'
import { syncDirectory } from '../disk/sync.ts'
import type { Logger } from '../domain/logger.ts'
import type { HeldBag } from './account.ts'
import { PRIVATE_DIRECTORY } from './on-disk.ts'

const recordSchema = z.object({
  kind: z.enum(['file', 'folder']),
  filename: z.string(),
  size: z.number().int().nonnegative(),
  uploaded_at: z.number(),
  description: z.string(),
  bag_id: z.string().regex(/^[0-9a-f]{64}$/),
})

const SUFFIX = '.json'

/** What was found under `accounts/` when the service started. */
export interface FoundRecords {
  readonly bags: readonly { readonly uid: string; readonly bag: HeldBag }[]
  /** Ids whose record cannot be read: their content must stay for a person to look at. */
  readonly unreadable: ReadonlySet<string>
}

/** The records on disk: one small file each, `accounts/<uid>/<bag id>.json`. */
export class RecordFiles {
  readonly #log: Logger
  readonly #directory: string

  constructor(deps: { log: Logger }, settings: { directory: string }) {
    this.#log = deps.log
    this.#directory = settings.directory
  }

  async write(uid: string, bag: HeldBag): Promise<void> {
    const text = JSON.stringify({ kind: bag.kind, ...bag.record })
    const name = `${bag.record.bag_id}${SUFFIX}`
    await writeFileAtomic(join(this.#directory, uid, name), text, { durable: true })
  }

  async remove(uid: string, bagId: string): Promise<void> {
    const directory = join(this.#directory, uid)
    await rm(join(directory, `${bagId}${SUFFIX}`), { force: true })
    await syncDirectory(directory)
  }

  /** Makes the folder of each account, so that `write` finds it. */
  async prepare(uids: readonly string[]): Promise<void> {
    for (const uid of uids) {
      await mkdir(join(this.#directory, uid), { recursive: true, mode: PRIVATE_DIRECTORY })
    }
    await syncDirectory(this.#directory)
  }

  /** Reads every record of every account, in the order of their upload. */
  async load(): Promise<FoundRecords> {
    const bags: { uid: string; bag: HeldBag }[] = []
    const unreadable = new Set<string>()
    for (const dirent of await readdir(this.#directory, { withFileTypes: true })) {
      if (!dirent.isDirectory()) continue
      for (const name of await readdir(join(this.#directory, dirent.name))) {
        // A kill of the service left what it was just writing.
        if (name.endsWith(NEW_SUFFIX)) await rm(join(this.#directory, dirent.name, name))
        if (!name.endsWith(SUFFIX)) continue
        const bag = this.#read(join(this.#directory, dirent.name, name))
        if (bag === undefined) unreadable.add(name.slice(0, -SUFFIX.length))
        else bags.push({ uid: dirent.name, bag })
      }
    }
    bags.sort((one, other) => one.bag.record.uploaded_at - other.bag.record.uploaded_at)
    return { bags, unreadable }
  }

  /** Synchronous: nothing else runs yet, and for 100,000 small files it is several times faster. */
  #read(path: string): HeldBag | undefined {
    try {
      const { kind, ...record } = recordSchema.parse(JSON.parse(readFileSync(path, 'utf8')))
      return { kind, record }
    } catch (error) {
      this.#log.error({ path, err: error }, 'A record cannot be read; its bag is not listed.')
      return undefined
    }
  }
}
