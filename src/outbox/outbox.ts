import { mkdirSync } from 'node:fs'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../domain/clock.ts'
import {
  DriveError,
  fromFileSystem,
  isAbsent,
  isDriveError,
  localDiskFull,
} from '../domain/errors.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { Intent, PutIntent } from '../intents/intent.ts'
import { orderOf, withoutCycle, type Intents } from '../intents/rules.ts'
import { notToCome } from '../intents/set-back.ts'
import type { Logger } from '../domain/logger.ts'
import { makeDirectory } from '../disk/make-directory.ts'
import { removeDirectory, removeFileNow } from '../disk/remove.ts'
import type { GroupSync, SyncFileSystem } from '../disk/group-sync.ts'
import { isThere } from '../disk/if-there.ts'
import { syncDirectory } from '../disk/sync.ts'
import type { Reserve } from '../state/reserve.ts'
import { readIntentIn } from './kept-intents.ts'
import { IntentIndex } from '../intents/intent-index.ts'
import {
  BASE_FILE,
  CONTENT_FILE,
  INTENT_FILE,
  openLayout,
  placeAside,
  readIntentDirName,
} from './layout.ts'
import { Platter, type Part } from './platter.ts'
import { StateFiles } from './state-files.ts'
import type { StepListener } from './steps.ts'

/** Whether a change must survive a power cut, a second later at most, or only a kill of this process. */
export interface Durability {
  readonly durable: boolean
}

interface OutboxDeps {
  readonly clock: Clock
  readonly log: Logger
  readonly onStep?: StepListener
  /** Given away when what is to be sent cannot be written down for want of room. */
  readonly reserve?: Pick<Reserve, 'release' | 'isOut'>
  readonly syncFileSystem?: SyncFileSystem
}

/** Told of an intent as it was, undefined for a new one, and as it is, undefined for one that is gone. */
type ChangeListener = (before: Intent | undefined, after: Intent | undefined) => void

/**
 * The durable place of intents and staged content: `<dir>/<id>/{content,intent.json}`.
 *
 * A directory without `intent.json` is a draft: content of a file that is still being written,
 * which is not promised to any program yet. The memory follows the disk: an intent is listed once
 * its file is written.
 */
export class Outbox implements Intents {
  readonly #deps: OutboxDeps
  readonly #dir: string
  /** An intent leaves it in `remove`. */
  readonly #intents = new IntentIndex()
  /** Last write of each id under way; each removes itself when it is the last. */
  readonly #writes = new Map<IntentId, Promise<unknown>>()
  readonly #platter: Platter
  readonly #files = new StateFiles()
  readonly #damaged: string[] = []
  readonly #listeners = new Set<ChangeListener>()
  #lastId = 0n

  private constructor(deps: OutboxDeps, dir: string) {
    this.#deps = deps
    this.#dir = dir
    this.#platter = new Platter(deps, dir)
  }

  /** What of the outbox, and of what lies in it, is on the platter. */
  get sync(): GroupSync {
    return this.#platter.sync
  }

  /**
   * Reads what an earlier process left: intents are kept, drafts removed, damaged ones set aside.
   * Rejects `local-io` when one cannot be read for any other reason, rather than go on without it.
   * Rejects `unsupported`, with nothing changed, when a newer version wrote one.
   */
  static async open(deps: OutboxDeps, settings: { readonly dir: string }): Promise<Outbox> {
    try {
      const outbox = new Outbox(deps, await openLayout(deps, settings.dir))
      const tidying: (() => Promise<void>)[] = []
      for (const name of await readdir(outbox.#dir)) {
        const tidy = await outbox.#take(name)
        if (tidy !== undefined) tidying.push(tidy)
      }
      for (const tidy of tidying) await tidy()
      outbox.#platter.noteDirectory()
      return outbox
    } catch (error) {
      throw fromFileSystem(error, 'The outbox cannot be read')
    }
  }

  /** Answers what is left to do for an intent once all are known to be ours. */
  async #take(name: string): Promise<(() => Promise<void>) | undefined> {
    const dir = readIntentDirName(name)
    if (dir === undefined) return undefined
    this.#noteId(dir.id)
    if (!dir.isDamaged) return this.#load(dir.id as IntentId)
    const path = join(this.#dir, name)
    // Of others, only a part of what belongs to them was set aside.
    if (await isThere(join(path, INTENT_FILE))) this.#intents.setAside(dir.id as IntentId)
    this.#damaged.push(path)
    return undefined
  }

  #noteId(id: string): void {
    const number = BigInt(id)
    if (number > this.#lastId) this.#lastId = number
  }

  async #load(id: IntentId): Promise<(() => Promise<void>) | undefined> {
    try {
      const { intent, states, torn, kept } = await readIntentIn(join(this.#dir, id))
      if (intent.id !== id) throw new DriveError('corrupt', 'This is the intent of another place.')
      this.#noteId(orderOf(intent))
      // A file whose last open copy was on its way to be replaced, or just unlinked: it comes back.
      if (intent.kind === 'delete' && intent.phase === 'held') return () => this.#forget(id)
      this.#intents.set(withoutCycle(this.#intents, intent))
      this.#files.noteFound(id, states)
      this.#platter.noteFound(intent, kept)
      return torn === undefined ? undefined : () => this.#restore(intent, torn)
    } catch (error) {
      if (isAbsent(error)) return () => this.#forget(id)
      if (isDriveError(error, 'corrupt')) return () => this.#setAside(id, error)
      throw error
    }
  }

  /** A power cut took the last change of an intent, and left what it was before. */
  async #restore(intent: Intent, torn: unknown): Promise<void> {
    const { id, name } = intent
    this.#deps.log.warn({ intent: id, name, error: String(torn) }, 'A change is as it was before.')
    await this.#write(intent, { durable: true })
  }

  async #forget(id: IntentId): Promise<void> {
    await rm(join(this.#dir, id), { recursive: true, force: true })
  }

  async #setAside(id: IntentId, error: unknown): Promise<void> {
    const path = await placeAside(this.#dir, id)
    await rename(join(this.#dir, id), path)
    this.#intents.setAside(id)
    this.#damaged.push(path)
    this.#deps.log.error(
      { intent: id, aside: path, error: String(error) },
      'Set aside a damaged intent.',
    )
  }

  /**
   * Makes a directory beside the intent, which stays: `fill` puts there what of it could not be read.
   * On disk when it resolves.
   */
  async setAside(id: IntentId, fill: (path: string) => Promise<void>): Promise<void> {
    const path = await placeAside(this.#dir, id)
    await mkdir(path, { mode: 0o700 })
    await fill(path)
    await syncDirectory(path)
    await syncDirectory(this.#dir)
    this.#damaged.push(path)
  }

  /** Directories of intents that could not be read; their content may still be in them. */
  damaged(): readonly string[] {
    return this.#damaged
  }

  /** All intents, oldest first. */
  intents(): readonly Intent[] {
    return this.#intents.intents()
  }

  /** The intents of one name at the service, oldest first. */
  named(name: string): readonly Intent[] {
    return this.#intents.named(name)
  }

  /** Intents that were given a bag, take its place, or get their content from it, oldest first. */
  ofBag(bagId: BagId): readonly Intent[] {
    return this.#intents.ofBag(bagId)
  }

  /** The intent that takes the place of a put, if any. */
  successorOf(id: IntentId): Intent | undefined {
    return this.#intents.successorOf(id)
  }

  /** True when no intent got its name after this time. */
  isLast(order: IntentId): boolean {
    return this.#intents.isLast(order)
  }

  isSetAside(id: IntentId): boolean {
    return this.#intents.isSetAside(id)
  }

  get(id: IntentId): Intent | undefined {
    return this.#intents.get(id)
  }

  /** The put of an id; undefined for a delete, for what is gone, and without an id. */
  put(id: IntentId | undefined): PutIntent | undefined {
    const intent = id === undefined ? undefined : this.#intents.get(id)
    return intent?.kind === 'put' ? intent : undefined
  }

  /** The directory of an intent. */
  directory(id: IntentId): string {
    return join(this.#dir, id)
  }

  /** Where the staged content of an intent or draft lies. */
  contentPath(id: IntentId): string {
    return join(this.#dir, id, CONTENT_FILE)
  }

  /** Where the zip lies that a folder from the trash is made from; only while no service has it. */
  basePath(id: IntentId): string {
    return join(this.#dir, id, BASE_FILE)
  }

  /**
   * Where content may lie that the service has for sure as this bag: it waits for the disk before it becomes the cache's, and
   * may be that already. What a power cut may have damaged is none.
   */
  stagedAs(bagId: BagId): string | undefined {
    const put = this.ofBag(bagId).find(
      (each) =>
        each.kind === 'put' &&
        each.phase === 'confirmed' &&
        each.bagId === bagId &&
        each.content.from === 'staged' &&
        !this.isUnchecked('content', each.id),
    )
    return put === undefined ? undefined : this.contentPath(put.id)
  }

  /** Calls `listener` after each change; returns the function that ends this. */
  onChange(listener: ChangeListener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** An id for a new intent; ids grow, also across restarts. */
  nextId(): IntentId {
    const now = BigInt(Math.trunc(this.#deps.clock.now())) * 10_000n
    this.#lastId = now > this.#lastId ? now : this.#lastId + 1n
    return this.#lastId.toString().padStart(17, '0') as IntentId
  }

  /** True while the local disk has no room but for sending what waits. */
  get isShort(): boolean {
    return this.#deps.reserve?.isOut === true
  }

  /** Does what in the end frees the disk: on a full one the reserve is given away, and it is done again. */
  async withReserve<Result>(task: () => Promise<Result>): Promise<Result> {
    try {
      return await task()
    } catch (error) {
      const isFull = isDriveError(fromFileSystem(error, 'The outbox'), 'local-disk-full')
      if (!isFull) throw error
      // Another change may have had it given away in this moment: there is room for both.
      this.#deps.reserve?.release()
      return task()
    }
  }

  /** Makes room for content that is going to be written; synchronous, for the hot path of create. */
  createDraft(): { readonly id: IntentId; readonly path: string } {
    if (this.isShort) throw localDiskFull('The outbox cannot take a new file')
    const id = this.nextId()
    try {
      mkdirSync(join(this.#dir, id), { mode: 0o700 })
    } catch (error) {
      throw fromFileSystem(error, 'The outbox cannot take a new file')
    }
    return { id, path: this.contentPath(id) }
  }

  async discardDraft(id: IntentId): Promise<void> {
    if (this.#intents.get(id) !== undefined) return
    await rm(join(this.#dir, id), { recursive: true, force: true })
  }

  /**
   * Records a new intent; when this resolves the promise is kept, whatever happens to the process. What is to be
   * deleted may be what a program copied a moment ago: that is on the platter before.
   */
  async add(added: Intent, options: Durability): Promise<void> {
    this.#step('add.begin')
    const intent = withoutCycle(this.#intents, added)
    await this.#queue(intent.id, async () => {
      if (intent.kind === 'delete') await this.sync.completeGiven()
      const write = async (): Promise<void> => {
        const made = makeDirectory(join(this.#dir, intent.id))
        try {
          await this.#write(intent, options)
        } catch (error) {
          if (made !== undefined) await removeDirectory(made)
          throw error
        }
      }
      // What a delete frees is more than it takes; new content is refused instead.
      await (intent.kind === 'delete' ? this.withReserve(write) : write())
      if (options.durable) this.sync.note([this.#dir], { isGiven: intent.kind === 'put' })
      this.#step('add.written')
      this.#intents.set(intent)
    })
    this.#changed(undefined, intent)
  }

  /** Changes an intent; one that was removed meanwhile stays removed, and undefined is answered. */
  async update(
    id: IntentId,
    change: (intent: Intent) => Intent,
    options: Durability,
  ): Promise<Intent | undefined> {
    let before: Intent | undefined
    const changed = await this.#queue(id, async () => {
      const intent = this.#intents.get(id)
      if (intent === undefined) return undefined
      before = intent
      const next = withoutCycle(this.#intents, change(intent))
      await this.withReserve(() => this.#write(next, options))
      this.#step('update.written')
      this.#intents.set(next)
      return next
    })
    if (changed !== undefined) this.#changed(before, changed)
    return changed
  }

  /** Times that are to come, by a clock that was set back, count as now. In memory only: the next start does it again. */
  followClock(): void {
    const nowMs = this.#deps.clock.now()
    for (const before of this.#intents.intents()) {
      const after = notToCome(before, nowMs)
      if (after === before) continue
      this.#intents.set(after)
      this.#changed(before, after)
    }
  }

  /**
   * Forgets an intent and its content. With `as`, which the decision was made on, only while the
   * intent is still that. What it was given since (bags to delete, by a handover) would be
   * forgotten with it. What was made to take its place is on the platter before it goes.
   */
  async remove(id: IntentId, as?: Intent): Promise<void> {
    this.#step('remove.begin')
    let before: Intent | undefined
    await this.#queue(id, async () => {
      if (as !== undefined && this.#intents.get(id) !== as) return
      if (!this.#platter.isOfThisMoment(id, this.#intents.get(id))) await this.sync.complete()
      await this.#platter.removeKept(id)
      // The intent goes before its content: a kill in between leaves a draft, not a broken promise.
      removeFileNow(join(this.#dir, id, INTENT_FILE))
      this.#step('remove.unlinked')
      before = this.#intents.get(id)
      this.#intents.delete(id)
      this.#platter.forget(id)
      this.#files.forget(id)
      await removeDirectory(join(this.#dir, id))
    })
    this.#changed(before, undefined)
  }

  /** See `Platter.isUnchecked`. */
  isUnchecked(part: Part, id: IntentId): boolean {
    return this.#platter.isUnchecked(part, id)
  }

  noteWhole(part: Part, id: IntentId): void {
    this.#platter.noteWhole(part, id)
  }

  /** Waits for the writes under way, and until they are on the platter. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#writes.values())
    await this.sync.close()
  }

  async #write(intent: Intent, options: Durability): Promise<void> {
    const { id } = intent
    await this.#files.write(join(this.#dir, id, INTENT_FILE), intent)
    if (options.durable || this.#platter.isNoted(id)) this.#platter.note(intent)
  }

  async #queue<Result>(id: IntentId, task: () => Promise<Result>): Promise<Result> {
    const before = this.#writes.get(id) ?? Promise.resolve()
    const turn = before.then(task, task)
    this.#writes.set(id, turn)
    try {
      return await turn
    } catch (error) {
      throw fromFileSystem(error, 'The outbox cannot be written')
    } finally {
      if (this.#writes.get(id) === turn) this.#writes.delete(id)
    }
  }

  #step(step: Parameters<StepListener>[0]): void {
    this.#deps.onStep?.(step)
  }

  #changed(before: Intent | undefined, after: Intent | undefined): void {
    for (const listener of this.#listeners) listener(before, after)
  }
}
