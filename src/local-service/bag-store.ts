import { createHash } from 'node:crypto'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { lockDirectory, type DirectoryLock } from '../disk/directory-lock.ts'
import { syncDirectory } from '../disk/sync.ts'
import type { Clock } from '../domain/clock.ts'
import { DriveError, fromFileSystem, isAbsent } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { ServedAccount } from './account.ts'
import type { UploadKind, HeldBag } from './account.ts'
import { onDisk, PRIVATE_DIRECTORY } from './on-disk.ts'
import { noSpace, receiveContent } from './incoming.ts'
import type { ReceivableRoom, ReceivedContent } from './incoming.ts'
import { KeyedLock } from '../domain/keyed-lock.ts'
import { RecordFiles } from './record-files.ts'

export interface BagStoreDependencies {
  readonly log: Logger
  readonly clock: Clock
}

export interface BagStoreSettings {
  readonly dataDir: string
  readonly capacityBytes: number
  /** Accounts that the service serves now; others that are on disk are kept. */
  readonly uids: readonly string[]
}

/** What an upload says of its content. */
export interface BagLabel {
  readonly kind: UploadKind
  readonly name: string
  readonly description: string
}

/** 64 hex digits over what makes a bag: the same thing uploaded twice has one id. */
export function bagIdOf(label: BagLabel, sha256: string): string {
  const parts = JSON.stringify([label.kind, sha256, label.name, label.description])
  return createHash('sha256').update(parts).digest('hex')
}

/**
 * The bags of all accounts, in a directory:
 * - `bags/<bag id>`: content, kept while an account holds the bag
 * - `accounts/<uid>/<bag id>.json`: that an account holds it, and its record
 * - `incoming/`: what is not whole yet; emptied at the start
 * - `lock`, `lock.db`: the process that uses the directory
 *
 * Content is moved into place before the record that names it is written, and removed after. So a
 * process killed at any moment leaves at most content that nothing names, and the next start
 * removes it.
 */
export class BagStore {
  readonly #deps: BagStoreDependencies
  readonly #bagsDir: string
  readonly #incomingDir: string
  readonly #records: RecordFiles
  readonly #lock: DirectoryLock
  readonly #accounts = new Map<string, ServedAccount>()
  /** Ids whose content is in `bags/`. */
  readonly #contents = new Set<string>()
  /** A change of a bag takes the turn of its id. */
  readonly #turns = new KeyedLock<string>()
  readonly #receiving = new Set<Promise<ReceivedContent>>()
  #lastStampMs = 0

  private constructor(deps: BagStoreDependencies, settings: BagStoreSettings, lock: DirectoryLock) {
    this.#deps = deps
    this.#lock = lock
    this.#bagsDir = join(settings.dataDir, 'bags')
    this.#incomingDir = join(settings.dataDir, 'incoming')
    this.#records = new RecordFiles(deps, {
      directory: join(settings.dataDir, 'accounts'),
    })
  }

  /**
   * Takes the directory, which is made when missing. Rejects `usage` when other users can change it, `locked`,
   * `local-io`, `local-disk-full`.
   */
  static async open(deps: BagStoreDependencies, settings: BagStoreSettings): Promise<BagStore> {
    const what = `Cannot use the data directory ${settings.dataDir}`
    return onDisk(what, BagStore.#open(deps, settings))
  }

  static async #open(deps: BagStoreDependencies, settings: BagStoreSettings): Promise<BagStore> {
    const lock = await lockDirectory(settings.dataDir, {
      what: 'data directory',
      pathName: 'data directory',
      subject: `The data directory ${settings.dataDir}`,
      hint: 'Stop that process, or use another data directory.',
    })
    try {
      const store = new BagStore(deps, settings, lock)
      await store.#load(settings)
      return store
    } catch (error) {
      await lock.release()
      throw error
    }
  }

  async #load(settings: BagStoreSettings): Promise<void> {
    await rm(this.#incomingDir, { recursive: true, force: true })
    for (const path of [this.#incomingDir, this.#bagsDir, join(settings.dataDir, 'accounts')]) {
      await mkdir(path, { recursive: true, mode: PRIVATE_DIRECTORY })
    }
    await this.#records.prepare(settings.uids)
    const found = await this.#records.load()
    const accountOf = (uid: string): ServedAccount => {
      const account = this.#accounts.get(uid) ?? new ServedAccount(uid, settings.capacityBytes)
      this.#accounts.set(uid, account)
      return account
    }
    settings.uids.forEach(accountOf)
    for (const { uid, bag } of found.bags) accountOf(uid).restore(bag)
    await this.#loadContents(found.unreadable)
  }

  async #loadContents(unreadable: ReadonlySet<string>): Promise<void> {
    for (const id of await readdir(this.#bagsDir)) {
      if (this.#holder(id) !== undefined || unreadable.has(id)) this.#contents.add(id)
      else await rm(join(this.#bagsDir, id), { recursive: true, force: true })
    }
    this.#warnOfMissingContents()
  }

  /** Such bags stay listed, so that a person learns of them; uploading the same thing again heals them. */
  #warnOfMissingContents(): void {
    for (const account of this.#accounts.values()) {
      const missing = Array.from(account.bagIds()).filter((id) => !this.#contents.has(id))
      if (missing.length === 0) continue
      const fields = { uid: account.uid, count: missing.length, bagIds: missing.slice(0, 10) }
      this.#deps.log.error(fields, 'The content of listed bags is missing.')
    }
  }

  account(uid: string): ServedAccount {
    const account = this.#accounts.get(uid)
    if (account === undefined) throw new RangeError('The store was not opened for this account.')
    return account
  }

  /** Writes content beside the bags; hand it to `add` or `discard`. See `receiveContent`. */
  async receive(source: AsyncIterable<Buffer>, room: ReceivableRoom): Promise<ReceivedContent> {
    const work = receiveContent(source, { directory: this.#incomingDir, room })
    this.#receiving.add(work)
    try {
      return await work
    } finally {
      this.#receiving.delete(work)
    }
  }

  async discard(content: ReceivedContent): Promise<void> {
    await onDisk('Cannot remove an upload', rm(content.path, { force: true }))
  }

  /**
   * Makes received content a bag of the account and returns its id; durable when it resolves. A bag
   * that the account holds already gets a new upload time. Rejects `no-space`. The received file is
   * gone in every case.
   */
  async add(uid: string, label: BagLabel, content: ReceivedContent): Promise<string> {
    const id = bagIdOf(label, content.sha256)
    const record = {
      filename: label.name,
      size: content.length,
      uploaded_at: this.#stamp(),
      description: label.description,
      bag_id: id,
    }
    const bag: HeldBag = { kind: label.kind, record }
    try {
      await onDisk(
        'Cannot store a bag',
        this.#turns.run(id, () => this.#hold(uid, bag, content.path)),
      )
    } finally {
      await this.discard(content)
    }
    return id
  }

  /** Makes a bag that any account holds one of this account too. Rejects `not-found`, `no-space`. */
  async import(uid: string, id: string): Promise<void> {
    const task = async (): Promise<void> => {
      if (this.account(uid).get(id) !== undefined) return
      const known = this.#holder(id)?.get(id)
      if (known === undefined) throw noSuchBag(id)
      const record = { ...known.record, uploaded_at: this.#stamp() }
      await this.#hold(uid, { kind: known.kind, record })
    }
    await onDisk('Cannot import a bag', this.#turns.run(id, task))
  }

  /** Forgets a bag of the account; its content goes with the last account. Rejects `not-found`. */
  async remove(uid: string, id: string): Promise<void> {
    const task = async (): Promise<void> => {
      const bag = this.account(uid).get(id)
      if (bag === undefined) throw noSuchBag(id)
      await this.#records.remove(uid, id)
      this.account(uid).drop(bag)
      await this.#removeContentIfUnheld(id)
    }
    await onDisk('Cannot delete a bag', this.#turns.run(id, task))
  }

  /** Opens the content of a bag that the account holds; the caller closes it. Rejects `not-found`. */
  async openContent(uid: string, id: string): Promise<{ bag: HeldBag; file: FileHandle }> {
    const bag = this.account(uid).get(id)
    if (bag === undefined) throw noSuchBag(id)
    try {
      return { bag, file: await open(join(this.#bagsDir, id), 'r') }
    } catch (error) {
      if (isAbsent(error)) throw noSuchBag(id)
      throw fromFileSystem(error, 'Cannot read a bag')
    }
  }

  /** Resolves when nothing is being written any more; then the directory is free. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#receiving)
    await this.#turns.idle()
    await this.#lock.release()
  }

  /** Runs in the turn of the bag. `path` is content to move in, when the bag may be new. */
  async #hold(uid: string, bag: HeldBag, path?: string): Promise<void> {
    const account = this.account(uid)
    const { bag_id: id, size } = bag.record
    const isNew = account.get(id) === undefined
    if (isNew && !account.reserve(size)) throw noSpace(account.spaceLeftBytes())
    try {
      if (path !== undefined && !this.#contents.has(id)) {
        await rename(path, join(this.#bagsDir, id))
        await syncDirectory(this.#bagsDir)
        this.#contents.add(id)
      }
      await this.#records.write(uid, bag)
    } catch (error) {
      if (isNew) await this.#undoHold(account, bag)
      throw error
    }
    account.hold(bag)
  }

  /** The record may be on disk although writing it failed: its folder could not be synced. */
  async #undoHold(account: ServedAccount, { record }: HeldBag): Promise<void> {
    account.release(record.size)
    await this.#records.remove(account.uid, record.bag_id)
    await this.#removeContentIfUnheld(record.bag_id)
  }

  async #removeContentIfUnheld(id: string): Promise<void> {
    if (this.#holder(id) !== undefined) return
    this.#contents.delete(id)
    await rm(join(this.#bagsDir, id), { force: true })
  }

  #holder(id: string): ServedAccount | undefined {
    for (const account of this.#accounts.values()) if (account.get(id) !== undefined) return account
    return undefined
  }

  /** Unix seconds; later uploads have later times, so that the newest of one name is known. */
  #stamp(): number {
    this.#lastStampMs = Math.max(this.#deps.clock.now(), this.#lastStampMs + 1)
    return this.#lastStampMs / 1000
  }
}

function noSuchBag(id: string): DriveError {
  return new DriveError('not-found', `There is no bag ${id} here.`, { fields: ['bag_id'] })
}
