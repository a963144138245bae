import type { Clock } from '../../domain/clock.ts'
import { DriveError } from '../../domain/errors.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import type { MovedTo, PutIntent } from '../../intents/intent.ts'
import type { Logger } from '../../domain/logger.ts'
import { movedAway, movesLost, toKeep } from '../../intents/claims.ts'
import { collecting } from '../../intents/rounds.ts'
import { ofPut, publish } from '../../intents/transitions.ts'
import { awaiting, isMovedTo } from '../../intents/rules.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Jobs } from '../../outbox/jobs.ts'
import type { Entries } from '../root/entries.ts'
import type { FileNode } from '../tree/nodes.ts'
import { ChangeFiles } from './change-files.ts'
import type { Operation } from './journal.ts'
import { MovedIn } from './moved-in.ts'
import { Rest } from './rest.ts'

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

/** The changes of one folder: the intent that they belong to, and when they are packed. */
export class ChangeLog {
  readonly #deps: ChangeLogDeps
  readonly #node: FileNode
  readonly #tree: ChangedTree
  readonly #movedIn = new MovedIn()
  readonly #rest: Rest
  #id: IntentId | undefined
  #files: ChangeFiles | undefined

  constructor(deps: ChangeLogDeps, settings: ChangeLogSettings, node: FileNode, tree: ChangedTree) {
    this.#deps = deps
    this.#node = node
    this.#tree = tree
    this.#rest = new Rest(deps.clock, settings.restMs, () => {
      this.#publish()
    })
  }

  /** The intent that holds the changes; undefined while there are none. */
  get id(): IntentId | undefined {
    return this.#id
  }

  /** Operations so far. */
  get count(): number {
    return this.#files?.count ?? 0
  }

  /** The journal and what is staged. Throws `stale` while there are no changes. */
  get files(): ChangeFiles {
    if (this.#files === undefined) throw new DriveError('stale', 'The folder has no changes.')
    return this.#files
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

  /** Takes up the changes of an intent; answers those that its base does not have. One that fails is for the next call. */
  async open(intent: PutIntent): Promise<readonly Operation[]> {
    this.#files?.close()
    this.#files = undefined
    this.#id = intent.id
    const { files, unstored, hasLostMoved } = await this.#openFiles(intent)
    this.#files = files
    if (hasLostMoved) await this.#leaveOrigins()
    this.#tree.noteChanges(true)
    this.#movedIn.clear()
    this.#follow(unstored)
    return unstored
  }

  async #openFiles(intent: PutIntent): ReturnType<typeof ChangeFiles.open> {
    try {
      return await ChangeFiles.open(this.#deps, intent)
    } catch (error) {
      this.leave()
      throw error
    }
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

  /** What moved in is lost here: where it came from it is not deleted, and shows again where nothing else changed. */
  async #leaveOrigins(): Promise<void> {
    const { outbox } = this.#deps
    const { id: own } = this.place
    const isHere = (to: MovedTo): boolean => isMovedTo(outbox, to, own)
    for (const { id, kind, supersedes } of awaiting(outbox, own)) {
      if (kind === 'delete' && supersedes.length === 0) await outbox.remove(id)
      else await outbox.update(id, (latest) => movesLost(latest, isHere), { durable: true })
    }
    await this.#keepOrigins()
  }

  /** The folder moves to another place as a whole, where what moved in here is followed no more. On disk when this resolves. */
  async keepMovedIn(): Promise<void> {
    if (this.#movedIn.isAny) await this.#keepOrigins()
  }

  async #keepOrigins(): Promise<void> {
    const { outbox } = this.#deps
    if (this.#id === undefined) return
    const origins = awaiting(outbox, this.#id).filter(({ kind }) => kind === 'delete')
    await Promise.all(origins.map(({ id }) => outbox.update(id, toKeep, { durable: true })))
  }

  /** Writes down once more what is no change. */
  repeat(...operations: readonly Operation[]): void {
    this.files.append(operations)
  }

  /** Removes a staged file of which the journal has no need any more, once that is on disk. */
  dropFile(path: string): void {
    // With the last change all staged files go.
    this.#files?.drop(path)
  }

  /** Content that was promised, and what the journal says of it, is on the platter a second from now. */
  noteGiven(path: string): number {
    return this.files.note([path], { isGiven: true })
  }

  /** Resolves when a power cut takes nothing of what was written down. */
  async sync(): Promise<void> {
    this.#files?.note([])
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
      this.leave()
      throw error
    }
    this.#deps.entries.resolve(this.#node.name ?? '')
    this.touch()
  }

  /** Takes up an intent that others made for the same tree (a rename). */
  async #takeUp(intent: PutIntent): Promise<void> {
    const unseen = await this.open(intent)
    if (unseen.length === 0) return
    this.leave()
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
    this.#rest.touch()
  }

  #publish(): void {
    this.publish().catch((error: unknown) => {
      this.#deps.log.error({ error: String(error) }, 'A folder cannot be sent.')
    })
  }

  /** Lets the uploader have the changes now. Answers the intent to wait for, if there are any. */
  async publish(): Promise<IntentId | undefined> {
    this.#rest.end()
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
    this.#rest.notePacking()
  }

  noteUploaded(): void {
    this.#rest.noteUploaded()
  }

  /** All changes are at the service: the intent goes its way without us. */
  async finish(): Promise<void> {
    const { files } = this
    this.leave()
    // That they are stored is on the platter before they go.
    await this.#deps.outbox.sync.complete()
    await files.remove()
  }

  close(): void {
    this.#rest.end()
    this.#files?.close()
  }

  /** The changes go their way without this tree, which has none from now on. */
  leave(): void {
    this.close()
    this.#id = undefined
    this.#files = undefined
    this.#movedIn.clear()
    this.#tree.noteChanges(false)
  }
}
