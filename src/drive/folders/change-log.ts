import { link, mkdir, readdir, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../domain/clock.ts'
import { DriveError, fromFileSystem } from '../../domain/errors.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import type { MovedTo, PutIntent } from '../../intents/intent.ts'
import type { Logger } from '../../domain/logger.ts'
import { collecting, movedAway, ofPut, publish, toKeep } from '../../intents/transitions.ts'
import { awaiting } from '../../intents/rules.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Jobs } from '../../outbox/jobs.ts'
import { writeFileAtomic } from '../../disk/atomic-file.ts'
import { ifThere } from '../../disk/if-there.ts'
import { syncDirectory } from '../../disk/sync.ts'
import type { Entries } from '../root/entries.ts'
import type { FileNode } from '../tree/nodes.ts'
import { filesOf, Journal, readJournal, type Operation } from './journal.ts'
import { leftToExchange } from './exchanging.ts'
import { findLost } from './lost-content.ts'
import { MovedIn } from './moved-in.ts'
import { layOver, readClosed } from './undo.ts'

export interface ChangeLogDeps {
  readonly outbox: Outbox
  readonly jobs: Jobs
  readonly entries: Entries
  readonly clock: Clock
  readonly log: Logger
  /** Makes an intent for changes of a folder that is stored and unchanged so far. */
  readonly begin: (node: FileNode, shown: BagId, base: BagId, id: IntentId) => Promise<PutIntent>
}

export interface ChangeLogSettings {
  /** How long a folder rests before it is packed, in ms; longer when its uploads take longer. */
  readonly restMs: number
}

/** What is to be known of the tree that changes. */
interface ChangedTree {
  /** The bag that the tree in memory was made from. */
  readonly base: () => BagId | undefined
  /** Throws `stale` for a tree that is shown no more: it is another version that the changes would be made to. */
  readonly refuseClosed: () => void
  /** Told when it gets changes, and when all are stored. */
  readonly noteChanges: (are: boolean) => void
}

/** A folder that never rests is packed this often all the same. */
const LONGEST_MS = 60_000
/** A line that stands for one which is in the zip, and damaged. */
const NO_CHANGE: Operation = { op: 'attributes', path: '' }

/** The changes of one folder on disk: its intent, the journal and staged files beside it. */
export class ChangeLog {
  readonly #deps: ChangeLogDeps
  readonly #settings: ChangeLogSettings
  readonly #node: FileNode
  readonly #tree: ChangedTree
  #id: IntentId | undefined
  #journal: Journal | undefined
  #nextFile = 1
  readonly #movedIn = new MovedIn()
  /** Staged files to remove at the next sync. */
  readonly #dropped: string[] = []
  #cancelTimer: (() => void) | undefined
  #lastChangeMs = 0
  #firstChangeMs = 0
  #uploadMs = 0
  #packedAtMs = 0

  constructor(deps: ChangeLogDeps, settings: ChangeLogSettings, node: FileNode, tree: ChangedTree) {
    this.#deps = deps
    this.#settings = settings
    this.#node = node
    this.#tree = tree
  }

  /** The intent that holds the changes; undefined while there are none. */
  get id(): IntentId | undefined {
    return this.#id
  }

  /** Operations so far. */
  get count(): number {
    return this.#journal?.count ?? 0
  }

  /** Where what is in the folder now is stored: by this intent, once it has so many operations. */
  get place(): MovedTo {
    if (this.#id === undefined) throw new DriveError('stale', 'The folder has no changes.')
    return { id: this.#id, operations: this.count }
  }

  /** Something moves from here to another place; `begin` was called. On disk when this resolves. */
  async noteMoved(to: MovedTo): Promise<void> {
    const { id } = this.place
    await this.#deps.outbox.update(id, (latest) => movedAway(latest, to), { durable: true })
  }

  /** Takes up the changes of an intent; answers those that its base does not have. */
  async open(intent: PutIntent): Promise<readonly Operation[]> {
    this.#journal?.close()
    const { outbox } = this.#deps
    this.#id = intent.id
    const path = this.#path('journal.jsonl')
    const { operations, wholeBytes, damaged } = await readJournal(path)
    await mkdir(this.filesDir, { recursive: true, mode: 0o700 })
    await this.#undoTorn(operations)
    if (outbox.isUnchecked('changes', intent.id)) await this.#takeOutLost(intent, operations)
    outbox.noteWhole('changes', intent.id)
    if (damaged.length > 0) await this.#setAside(intent, operations, damaged)
    this.#journal = Journal.open(path, operations.length)
    await truncate(path, wholeBytes)
    await this.#clearFiles(operations)
    const left = leftToExchange(operations)
    this.#journal.append(...left)
    const { start = 0, packed = start } = intent.changes ?? {}
    // Later changes are counted on from what the zip has.
    while (this.#journal.count < packed) this.#journal.append(NO_CHANGE)
    this.#tree.noteChanges(true)
    const unstored = [...operations, ...left].slice(start)
    this.#movedIn.clear()
    this.#follow(unstored)
    return unstored
  }

  /** What a damaged line hides is kept for the user: the rest of the journal, and content only it may name. */
  async #setAside(
    { id, name }: PutIntent,
    operations: readonly Operation[],
    damaged: Buffer,
  ): Promise<void> {
    const named = new Set(operations.flatMap(filesOf))
    await this.#deps.outbox.setAside(id, async (aside) => {
      await writeFileAtomic(join(aside, 'journal.jsonl'), damaged, { durable: true })
      const files = join(aside, 'files')
      await mkdir(files, { mode: 0o700 })
      for (const file of await readdir(this.filesDir)) {
        if (!named.has(file)) await link(join(this.filesDir, file), join(files, file))
      }
      await syncDirectory(files)
    })
    this.#deps.log.error(
      { intent: id, folder: name },
      'Changes of a folder are damaged; set aside.',
    )
  }

  /** What a power cut took before it was on the platter is set aside, and the tree is made without it. */
  async #takeOutLost({ id, name }: PutIntent, operations: readonly Operation[]): Promise<void> {
    const lost = await findLost(this.filesDir, operations)
    if (lost.length === 0) return
    await this.#deps.outbox.setAside(id, async (aside) => {
      const files = join(aside, 'files')
      await mkdir(files, { mode: 0o700 })
      for (const { file } of lost) await link(join(this.filesDir, file), join(files, file))
      await syncDirectory(files)
    })
    for (const { file } of lost) await rm(join(this.filesDir, file))
    this.#deps.log.error(
      { intent: id, folder: name, paths: lost.map(({ path }) => path) },
      'Files of a folder were not on the disk yet when the power went; set aside.',
    )
  }

  /** Content that no journal names was not promised; nothing of it may get into new content. */
  async #clearFiles(operations: readonly Operation[]): Promise<void> {
    const named = new Set(operations.flatMap(filesOf))
    for (const file of [...named, ...(await readdir(this.filesDir))]) {
      this.#nextFile = Math.max(this.#nextFile, Number(file) + 1)
      if (!named.has(file)) await rm(join(this.filesDir, file), { force: true })
    }
  }

  /**
   * What was being written in place is as it was closed. Kept is also what a later operation promised anew:
   * that is as it is.
   */
  async #undoTorn(operations: readonly Operation[]): Promise<void> {
    const dir = this.#path('undo')
    const files = await namesIn(this.filesDir)
    for (const file of await namesIn(dir)) {
      const kept = join(dir, file)
      const closed = await readClosed(kept)
      const isOutdated =
        closed !== undefined && operations.slice(closed.operations).flatMap(filesOf).includes(file)
      if (!isOutdated && files.includes(file)) await layOver(kept, join(this.filesDir, file))
      await rm(kept)
    }
  }

  get filesDir(): string {
    return this.#path('files')
  }

  /** Where content of the staging directory is kept as it was closed, while it is written in place. */
  undoPath(file: string): string {
    return join(this.#path('undo'), file)
  }

  /** A path for new content; nothing is there yet. */
  newFile(): { readonly file: string; readonly path: string } {
    const file = String(this.#nextFile)
    this.#nextFile += 1
    return { file, path: join(this.filesDir, file) }
  }

  /** Makes sure there is an intent that takes changes; call it before each change. */
  async begin(): Promise<void> {
    for (;;) {
      this.#tree.refuseClosed()
      const intent = this.#current()
      if (intent === undefined) {
        await this.#start()
        return
      }
      if (await this.#reopen(intent)) return
    }
  }

  /** Writes a change down and lets the folder rest anew. */
  append(operation: Operation): void {
    this.appendAll([operation])
  }

  /** As `append`, of several that belong together. */
  appendAll(operations: readonly Operation[]): void {
    this.repeat(...operations)
    this.#follow(operations)
    this.touch()
  }

  /** Of what is not there any more as it moved in, the bag that it came from goes to the trash. */
  #follow(operations: readonly Operation[]): void {
    const isLost = operations.map((each) => this.#movedIn.follow(each)).includes(true)
    if (!isLost) return
    this.#keepOrigins().catch((error: unknown) => {
      this.#deps.log.warn({ error: String(error) }, 'What moved and is gone is in no trash.')
    })
  }

  /** The folder moves to another place as a whole, where what moved in here is followed no more. On disk when this resolves. */
  async keepMovedIn(): Promise<void> {
    if (this.#movedIn.isAny) await this.#keepOrigins()
  }

  async #keepOrigins(): Promise<void> {
    const { outbox } = this.#deps
    if (this.#id === undefined) return
    const origins = awaiting(outbox, this.#id).filter(({ isToKeep }) => isToKeep !== true)
    await Promise.all(origins.map(({ id }) => outbox.update(id, toKeep, { durable: true })))
  }

  /** Writes down once more what is no change. */
  repeat(...operations: readonly Operation[]): void {
    if (this.#journal === undefined) throw new DriveError('stale', 'The folder is gone.')
    this.#journal.append(...operations)
  }

  /** Content that was promised, and what the journal says of it, is on the platter a second from now. */
  noteGiven(path: string): number {
    return this.#note([path], { isGiven: true })
  }

  /** Answers the group that it is in. */
  #note(paths: readonly string[], options: { readonly isGiven?: boolean } = {}): number {
    const { sync } = this.#deps.outbox
    const group = sync.note([...paths, this.filesDir, this.#path('journal.jsonl')], options)
    this.#removeDropped()
    return group
  }

  #removeDropped(): void {
    const { sync } = this.#deps.outbox
    if (this.#dropped.length === 0) return
    const dropped = this.#dropped.splice(0)
    sync
      .passed()
      .then(() => removeAll(dropped))
      .catch((error: unknown) => {
        this.#deps.log.warn({ error: String(error) }, 'Staged content stays behind.')
      })
  }

  /** Resolves when a power cut takes nothing of what was written down. */
  async sync(): Promise<void> {
    if (this.#id !== undefined) this.#note([])
    await this.#deps.outbox.sync.complete()
  }

  /**
   * What is to be removed may be what a program copied a moment ago: that is on the platter when this resolves. What
   * was written in the same moment is not promised to survive either.
   */
  async beforeRemoval(group?: number): Promise<void> {
    const { sync } = this.#deps.outbox
    if (group !== sync.group) await sync.completeGiven()
  }

  /** Removes a staged file of which the journal has no need any more, once that is on disk. */
  dropFile(path: string): void {
    this.#dropped.push(path)
  }

  /** The intent of the changes as it is now; undefined when the folder is stored and unchanged. */
  #current(): PutIntent | undefined {
    const { name } = this.#node
    if (name === undefined) throw new DriveError('not-found', 'The folder is gone.')
    this.#deps.entries.resolve(name)
    const own = this.#deps.outbox.put(this.#id)
    // Stored, but the tree is not led to the new bag yet: later changes are still collected there.
    if (own?.phase === 'confirmed') return own
    const { entry } = this.#node
    if (entry?.kind !== 'pending') return undefined
    const latest = this.#deps.outbox.put(entry.intent.id)
    return latest?.phase === 'confirmed' ? undefined : latest
  }

  async #start(): Promise<void> {
    const { entry } = this.#node
    if (entry?.kind !== 'bag') throw new DriveError('busy', 'The folder is being stored right now.')
    const shown = entry.record.bagId
    const id = this.#deps.outbox.nextId()
    this.#id = id
    try {
      const base = this.#tree.base() ?? shown
      await this.open(await this.#deps.begin(this.#node, shown, base, id))
    } catch (error) {
      this.#id = undefined
      throw error
    }
    this.#deps.entries.resolve(this.#node.name ?? '')
    this.touch()
  }

  /** Takes up an intent that others made for the same tree (a rename). */
  async #takeUp(intent: PutIntent): Promise<void> {
    const unseen = await this.open(intent)
    if (unseen.length === 0) return
    this.close()
    this.#id = undefined
    throw new DriveError('busy', 'The folder has changes that are not loaded yet. Try again.')
  }

  /** True when the intent takes changes now; what is being sent takes them for the next time. */
  async #reopen(intent: PutIntent): Promise<boolean> {
    const { outbox, jobs } = this.#deps
    if (this.#id !== intent.id) await this.#takeUp(intent)
    if (intent.phase === 'confirmed') return true
    const job = jobs.get(intent.id)
    if (job !== undefined && intent.phase !== 'local') {
      if (intent.content.from !== 'bag') return true
      await job.confirmed.catch(() => undefined)
      return false
    }
    // The service may have this zip although its answer was lost: it must be found again.
    if (intent.content.from === 'staged' && intent.sentAtMs !== undefined) return true
    if (intent.content.from === 'folder' && intent.phase === 'held') return true
    await outbox.update(intent.id, ofPut(collecting), { durable: true })
    this.touch()
    return true
  }

  /** Begins the time of rest; when it is over, the folder is packed and sent. */
  touch(): void {
    const now = this.#deps.clock.now()
    this.#lastChangeMs = now
    if (this.#cancelTimer !== undefined) return
    this.#firstChangeMs = now
    this.#wait(this.#restMs)
  }

  get #restMs(): number {
    return Math.max(this.#settings.restMs, this.#uploadMs)
  }

  #wait(ms: number): void {
    this.#cancelTimer = this.#deps.clock.after(ms, () => {
      this.#cancelTimer = undefined
      const now = this.#deps.clock.now()
      const rested = now - this.#lastChangeMs
      const longest = Math.max(LONGEST_MS, 3 * this.#uploadMs)
      if (rested >= this.#restMs || now - this.#firstChangeMs >= longest) this.#publish()
      else this.#wait(this.#restMs - rested)
    })
  }

  #publish(): void {
    this.publish().catch((error: unknown) => {
      this.#deps.log.error({ error: String(error) }, 'A folder cannot be sent.')
    })
  }

  /** Lets the uploader have the changes now. Answers the intent to wait for, if there are any. */
  async publish(): Promise<IntentId | undefined> {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    const { outbox, jobs } = this.#deps
    if (this.#id === undefined) return undefined
    await this.sync()
    const intent = outbox.get(this.#id)
    if (intent?.phase === 'held') {
      await outbox.update(this.#id, publish, { durable: false })
    }
    jobs.kick()
    return intent === undefined || intent.phase === 'local' ? undefined : this.#id
  }

  notePacking(): void {
    this.#packedAtMs = this.#deps.clock.now()
  }

  noteUploaded(): void {
    // A zip that an earlier process packed tells nothing of how long it takes here.
    if (this.#packedAtMs > 0) this.#uploadMs = this.#deps.clock.now() - this.#packedAtMs
  }

  /** All changes are at the service: the intent goes its way without us. */
  async finish(): Promise<void> {
    const { filesDir } = this
    const undoDir = this.#path('undo')
    this.#dropped.length = 0
    const journal = this.#path('journal.jsonl')
    this.close()
    this.#movedIn.clear()
    this.#id = undefined
    this.#tree.noteChanges(false)
    // That they are stored is on the platter before they go.
    await this.#deps.outbox.sync.complete()
    try {
      await rm(filesDir, { recursive: true, force: true })
      await rm(undoDir, { recursive: true, force: true })
      await rm(journal, { force: true })
    } catch (error) {
      throw fromFileSystem(error, 'The staged content of a folder cannot be removed')
    }
  }

  close(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#journal?.close()
    this.#journal = undefined
  }

  #path(name: string): string {
    if (this.#id === undefined) throw new DriveError('stale', 'The folder has no changes.')
    return join(this.#deps.outbox.directory(this.#id), name)
  }
}

async function removeAll(paths: readonly string[]): Promise<void> {
  for (const path of paths) await rm(path, { force: true })
}

/** Names in a directory that may not be there. */
async function namesIn(dir: string): Promise<readonly string[]> {
  return (await ifThere(readdir(dir), 'The changes of a folder cannot be read')) ?? []
}
