import type { Clock } from '../../domain/clock.ts'
import { deferred } from '../../domain/deferred.ts'
import { DriveError } from '../../domain/errors.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import type { Logger } from '../../domain/logger.ts'
import type { PutIntent } from '../../intents/intent.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { PinsStore } from '../../state/pins-store.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { RootNames } from './root-names.ts'
import type { Committer } from './commit.ts'
import type { Entries } from './entries.ts'
import type { Kinds } from './kinds.ts'
import type { NameChanges } from './name-changes.ts'
import type { Puts } from './puts.ts'
import type { RootRoom } from './room-beside.ts'
import type { RootNodes } from './root-nodes.ts'
import { classifyName, refuseTrash } from './save-steps.ts'
import { secureChange, secureRenamed } from './secure.ts'

interface RenamesDeps {
  readonly rootNames: RootNames
  readonly names: KeyedLock<'names'>
  readonly rootNodes: RootNodes
  readonly rootRoom: RootRoom
  readonly entries: Entries
  readonly kinds: Kinds
  readonly committer: Committer
  readonly changes: NameChanges
  readonly folders: {
    /** Waits until nothing of a folder is on its way to the service. */
    untilIdle(node: FileNode): Promise<void>
    /** The intents that hold changes of a folder. */
    intentsOf(node: FileNode): readonly IntentId[]
    /** Runs a task while nothing else changes these folders. */
    inTurns<Result>(nodes: readonly FileNode[], task: () => Promise<Result>): Promise<Result>
    /** A folder has got another name at the service. */
    renamed(from: string, to: string): void
    /** Each of two folders has got the name of the other at the service. */
    exchanged(one: string, other: string): void
  }
  readonly gate: {
    /** No change at a path, or below it, begins until what this answers is called. */
    close(path: string): () => void
    /** Resolves when nothing of that is being changed any more. */
    untilChanged(path: string): Promise<void>
  }
  readonly outbox: Outbox
  readonly puts: Puts
  readonly uploader: Uploader
  readonly pinned: Pick<PinsStore, 'removed' | 'renamed'>
  readonly clock: Clock
  readonly log: Logger
}

/** What a node was before it got another name. */
interface NodeBefore extends Pick<FileNode, 'name' | 'serviceName' | 'entry'> {
  readonly put: PutIntent | undefined
  /** The bag that had the new name. */
  readonly replaced: BagId | undefined
  /** Leads pins back to the names that they had. */
  readonly unpinned: () => void
}

/** As long as a rename of a folder waits for changes in it. */
const LONGEST_WAIT_MS = 3_000

/** A node, and the name by which it was found. */
type Named = readonly [FileNode, string]

/** Renames within the root. */
export class Renames {
  readonly #deps: RenamesDeps

  constructor(deps: RenamesDeps) {
    this.#deps = deps
  }

  /** Resolves when the change is as safe as the mode promises. In mode through, one that fails is taken back. */
  async rename(name: string, newName: string): Promise<void> {
    const { entries, changes, folders } = this.#deps
    refuseTrash(newName)
    const node = await this.#find(name, newName)
    // What cannot be done in any case waits for nothing.
    await this.#checkTarget(node, newName)
    await this.#untilIdle(node)
    entries.resolve(name)
    const target = entries.resolve(newName)
    const { isFolder } = node
    await this.#checkTarget(node, newName)
    if (target !== node) {
      await this.#deps.rootRoom.check(node, changes.bytesSentAgain(node, newName))
    }
    let before = this.#before(node, target)
    const both = target === undefined ? [node] : [node, target]
    const intent = await this.#alone(both, () => {
      before = this.#before(node, target)
      return changes.rename(node, name, newName)
    })
    if (isFolder) folders.renamed(before.serviceName, node.serviceName)
    const unpinned = this.#movePin(before.name, node.name)
    if (intent !== undefined) await this.#secure(node, intent, { ...before, unpinned })
  }

  /**
   * Gives each of two names what the other has. Resolves when the outbox has both changes, in mode through too: of two
   * uploads, one that fails leaves nothing that could be taken back.
   */
  async exchange(name: string, otherName: string): Promise<void> {
    const { changes, folders, rootRoom, uploader } = this.#deps
    const one = await this.#find(name, otherName)
    const other = await this.#find(otherName, name)
    for (const node of [one, other]) await this.#untilIdle(node)
    if (one === other) return
    await rootRoom.check(one, changes.bytesSentAgain(one, otherName))
    await rootRoom.check(other, changes.bytesSentAgain(other, name))
    await this.#alone([one, other], () => this.#exchangeNow([one, name], [other, otherName]))
    folders.exchanged(one.serviceName, other.serviceName)
    uploader.kick()
  }

  /**
   * Changes the names of these nodes while nothing changes what is in a folder of them, and none of them is stored: what
   * is in it belongs to an intent of its name.
   */
  async #alone<Result>(nodes: readonly FileNode[], task: () => Promise<Result>): Promise<Result> {
    const { names, folders } = this.#deps
    const inside = nodes.filter(({ isFolder }) => isFolder)
    if (inside.length === 0) return names.run('names', task)
    for (;;) {
      for (const node of inside) await this.#untilIdle(node)
      const goOn = this.#keepOut(inside)
      try {
        await this.#untilUnchanged(inside)
        const done = await names.run('names', () =>
          folders.inTurns(inside, async () =>
            inside.some((node) => this.#isBeingStored(node)) ? undefined : { result: await task() },
          ),
        )
        if (done !== undefined) return done.result
      } finally {
        goOn()
      }
    }
  }

  /** From now on no change in these folders begins, nor is one of them stored. */
  #keepOut(folders: readonly FileNode[]): () => void {
    const { gate, uploader } = this.#deps
    const ids = folders.flatMap((node) => this.#deps.folders.intentsOf(node))
    const ends = folders.flatMap(({ path }) => (path === undefined ? [] : gate.close(path)))
    ends.push(uploader.keepBack(ids))
    return () => {
      for (const end of ends) end()
    }
  }

  /** Throws `busy` where a change waits for the network for long: the kernel keeps the root locked meanwhile. */
  async #untilUnchanged(folders: readonly FileNode[]): Promise<void> {
    const { gate, clock } = this.#deps
    const paths = folders.flatMap(({ path }) => path ?? [])
    const unchanged = Promise.all(paths.map((path) => gate.untilChanged(path)))
    // What an open file has in hand is no change of a path.
    const isFree = unchanged.then(() =>
      this.#deps.folders.inTurns(folders, () => Promise.resolve(true)),
    )
    const { promise: isLate, resolve } = deferred<false>()
    const cancel = clock.after(LONGEST_WAIT_MS, () => {
      resolve(false)
    })
    const isUnchanged = await Promise.race([isFree, isLate])
    cancel()
    if (isUnchanged) return
    throw new DriveError('busy', `A program is writing in ${paths.join(' or ')}.`, {
      hint: 'Try again when it has closed its file.',
    })
  }

  /** As `#untilIdle` waits for it. */
  #isBeingStored(node: FileNode): boolean {
    const { folders, outbox, uploader } = this.#deps
    const ids = folders.intentsOf(node)
    return ids.some((id) => outbox.put(id)?.changes !== undefined && uploader.isRunning(id))
  }

  /**
   * A kill in between leaves both contents: the second name has that of the first, and what it had is beside it, as of
   * two bags of one name.
   */
  async #exchangeNow(...both: readonly [Named, Named]): Promise<void> {
    const { rootNames, entries, changes } = this.#deps
    for (const [, name] of both) entries.resolve(name)
    for (const [node, name] of both) await changes.prepareExchange(node, name)
    const [[one], [other]] = both
    const names = [one.serviceName, other.serviceName] as const
    const goOn = entries.holdStill([one, other])
    try {
      await changes.recordExchanged(one, names[1])
      await changes.recordExchanged(other, names[0])
      rootNames.exchange(one, other)
    } finally {
      goOn()
    }
    for (const node of [one, other]) entries.follow(node)
  }

  /** A pin follows the name, but not to a step of a save: there the name is about to come back. */
  #movePin(from: string | undefined, to: string | undefined): () => void {
    const { pinned } = this.#deps
    if (from === undefined || to === undefined || from === to) return () => undefined
    if (classifyName(to) === 'plain') return pinned.renamed(from, to)
    pinned.removed(from)
    return () => undefined
  }

  /** The node of a name; the kind of what is in the way of it is known. */
  async #find(name: string, newName: string): Promise<FileNode> {
    const { rootNodes } = this.#deps
    const node = await rootNodes.find(name)
    for (const each of [name, newName]) await rootNodes.learnForChange(each)
    return node
  }

  async #checkTarget(node: FileNode, newName: string): Promise<void> {
    const { entries, rootNodes } = this.#deps
    const target = entries.resolve(newName)
    if (target !== node) await rootNodes.checkReplacement(target, node.isFolder)
  }

  /** Resolves when nothing of a node is on its way to the service. */
  async #untilIdle(node: FileNode): Promise<void> {
    const { rootNodes, uploader, folders } = this.#deps
    if (node.entry?.kind === 'pending' && node.entry.intent.changes !== undefined) {
      await uploader.finished(node.entry.intent.id)
    }
    await folders.untilIdle(node)
    await rootNodes.untilSeen(node)
  }

  #before(
    { name, serviceName, entry }: FileNode,
    target: FileNode | undefined,
  ): Omit<NodeBefore, 'unpinned'> {
    const { outbox } = this.#deps
    const put = entry?.kind === 'pending' ? outbox.put(entry.intent.id) : undefined
    const replaced = target?.entry?.kind === 'bag' ? target.entry.record.bagId : undefined
    return { name, serviceName, entry, put, replaced }
  }

  async #secure(node: FileNode, { id, content }: PutIntent, before: NodeBefore): Promise<void> {
    const { put, replaced } = before
    try {
      if (put !== undefined) await secureRenamed(this.#deps, id, { put, replaced })
      else await secureChange(this.#deps, id, { hasNewContent: content.from !== 'bag' })
    } catch (error) {
      const left = this.#deps.outbox.put(id)
      if (left === undefined || left.name === put?.name) {
        before.unpinned()
        this.#takeBack(node, before)
      }
      throw error
    }
  }

  /** Open files of a rename that was taken back are what they were before it. */
  #takeBack(
    node: FileNode,
    { name, serviceName, entry }: Pick<FileNode, 'name' | 'serviceName' | 'entry'>,
  ): void {
    const { rootNames, entries } = this.#deps
    if (name === undefined || rootNames.named(name) !== undefined) return
    if (this.#deps.kinds.isFolder(entry)) this.#deps.folders.renamed(node.serviceName, serviceName)
    rootNames.rename(node, name, serviceName)
    node.entry = entry
    entries.follow(node)
  }
}
