import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { keptOf, type SpecialNode } from '../../domain/attributes.ts'
import type { Clock } from '../../domain/clock.ts'
import { DriveError, fromFileSystem, goneFile } from '../../domain/errors.ts'
import { listedAs } from '../../domain/folder-names.ts'
import { checkTypedName } from '../../domain/names.ts'
import type { IntentId } from '../../domain/ids.ts'
import { joined, NOTHING, type Base } from '../../intents/base.ts'
import { newDelete } from '../../intents/builders.ts'
import type { DeleteIntent, MovedTo, PutIntent } from '../../intents/intent.ts'
import { awaiting, isAnswered, isOnlyChangeOf, isTaken, wasSent } from '../../intents/rules.ts'
import {
  described,
  ofPut,
  renamed,
  renamedFolder,
  type Replaced,
} from '../../intents/transitions.ts'
import type { BagRecord, FactsAccess } from '../../domain/record.ts'
import type { Entry } from '../../namespace/entry.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { PinsStore } from '../../state/pins-store.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { Committer } from './commit.ts'
import { baseOf } from './contents.ts'
import type { Entries } from './entries.ts'
import type { Kinds } from './kinds.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { RootNames } from './root-names.ts'
import type { MadeAttributes } from '../tree/home.ts'
import type { NewContent, Puts } from './puts.ts'
import { classifyName } from './save-steps.ts'
import { shareContent } from './share-content.ts'
import type { DriveSettings } from '../settings.ts'
import { attributesOfBag } from './root-attributes.ts'

const EMPTY_SHA256 = createHash('sha256').digest('hex')

interface NameChangesDeps {
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly entries: Entries
  readonly rootNames: RootNames
  readonly committer: Committer
  readonly puts: Puts
  readonly kinds: Pick<Kinds, 'isFolder' | 'isLearned'>
  readonly folders: {
    /** Throws `not-empty` for a folder that something is in, `stale` where that would have to be loaded. */
    refuseFullNow(node: FileNode): void
  }
  readonly facts: Pick<FactsAccess, 'get'>
  readonly pinned: Pick<PinsStore, 'removed'>
  readonly clock: Clock
}

interface RemovalOptions extends Pick<DeleteIntent, 'movesOn'> {
  readonly mayBeReplaced: boolean
  /** Where what is removed moved to. */
  readonly after?: MovedTo
}

/** How long an unlink may turn out to be the first half of a replacement. A process that dies before it is over has promised nothing. */
const REPLACEMENT_WINDOW_MS = 1_000

/** Unlink and rename in the root. Callers hold the lock of names while these run. */
export class NameChanges {
  readonly #deps: NameChangesDeps
  readonly #settings: DriveSettings

  constructor(deps: NameChangesDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#settings = settings
  }

  /**
   * Takes a name away. Answers the intent to wait for, if any. `mayBeReplaced` delays the DELETE a
   * moment: the bridge cannot tell an unlink of an open file from the first half of a rename over it.
   */
  async unlink(node: FileNode, options: RemovalOptions): Promise<DeleteIntent | undefined> {
    const base = this.#baseOf(node)
    const name = this.#recordName(node)
    const shown = node.name
    this.refuseShared(node)
    this.#deps.rootNames.unlink(node)
    const intent = await this.#recordDelete(name, base, options)
    if (shown !== undefined) this.#deps.pinned.removed(shown)
    return intent
  }

  /** As `unlink`, of a name that was found to be a file. Throws `stale` when it may be none by now. */
  async unlinkFile(
    node: FileNode,
    options: { readonly mayBeReplaced: boolean },
  ): Promise<DeleteIntent | undefined> {
    this.#refuseMoved(node)
    this.#refuseOfKind(node, { isFolder: false })
    return this.unlink(node, options)
  }

  /** As `unlink`, of a name that was found to be an empty folder. Throws `stale` when it may be none by now. */
  async unlinkFolder(node: FileNode): Promise<DeleteIntent | undefined> {
    this.#refuseMoved(node)
    this.#refuseOfKind(node, { isFolder: true })
    return this.unlink(node, { mayBeReplaced: false })
  }

  async #recordDelete(
    name: string,
    base: Base,
    { mayBeReplaced, after, movesOn }: RemovalOptions,
  ): Promise<DeleteIntent | undefined> {
    const { outbox, entries, clock, uploader } = this.#deps
    const puts = base.supersedes.map((id) => outbox.get(id)).filter((put) => put !== undefined)
    const nothingSent = puts.every(
      (put) =>
        put.replaces.length === 0 &&
        put.supersedes.every((id) => outbox.get(id) === undefined) &&
        !uploader.isRunning(put.id) &&
        !wasSent(put),
    )
    const moved = [
      ...(after === undefined ? [] : [after]),
      ...puts.flatMap((put) => put.after ?? []),
    ]
    // What waits for such a put is told by the delete where the content went on to.
    const isPassedOn = moved.length > 0 && puts.some(({ id }) => awaiting(outbox, id).length > 0)
    if (base.replaces.length === 0 && nothingSent && !isPassedOn) {
      for (const put of puts) await outbox.remove(put.id, put)
      // One that the uploader took up meanwhile is still there.
      if (puts.every((put) => outbox.get(put.id) === undefined)) return undefined
    }
    const now = clock.now()
    const held = { phase: 'held', heldUntilMs: now + REPLACEMENT_WINDOW_MS } as const
    const intent = newDelete({
      id: outbox.nextId(),
      name,
      createdAtMs: now,
      ...base,
      uploaded: entries.uploadsOf(base.replaces),
      ...(moved.length === 0 ? {} : { after: moved }),
      ...(movesOn === undefined ? {} : { movesOn }),
      ...(mayBeReplaced ? held : {}),
    })
    await outbox.add(intent, { durable: this.#settings.writeBack || mayBeReplaced })
    return intent
  }

  /**
   * Bytes that the service must take once more, beside what it has of a node, when that gets another
   * name; without one, another description. Steps of a save are not sent, or not soon.
   */
  bytesSentAgain({ entry, hasUnpromised, serviceName }: FileNode, to?: string): number {
    if (hasUnpromised || entry === undefined || classifyName(to ?? serviceName) !== 'plain')
      return 0
    if (entry.kind === 'bag') return this.#lengthOf(entry.record) ?? 0
    return to === undefined ? 0 : this.#bytesPutAgain(entry.intent, to)
  }

  /** A put that was not sent just gets the name, and takes its room already. */
  #bytesPutAgain(intent: PutIntent, to: string): number {
    if (intent.changes !== undefined || this.#isBackInPlace(intent, to)) return 0
    const mayBeThere = isTaken(intent) || this.#deps.uploader.isRunning(intent.id)
    return mayBeThere ? (intent.content.length ?? 0) : 0
  }

  #lengthOf({ bagId, size }: BagRecord): number | undefined {
    return this.#deps.facts.get(bagId)?.length ?? size
  }

  /** Gives a node another name, taking the place of what has it. Answers the intent to wait for, if any. */
  async rename(node: FileNode, to: string): Promise<PutIntent | undefined> {
    const { entries, rootNames } = this.#deps
    const target = entries.resolve(to)
    if (target === node) return undefined
    this.refuseShared(node)
    const { isFolder } = node
    const { shown, serviceName, replaced } = this.#placeOf(target, to, { isFolder })
    if (staysHere(node)) return this.#renameHere(node, target, { shown, serviceName })
    if (node.hasUnpromised) return this.#renameDraft(node, { shown, serviceName, replaced })
    const { entry } = node
    if (entry === undefined) throw goneFile()
    const intent = await this.#recordRename(entry, serviceName, replaced)
    rootNames.rename(node, entries.tree().resolve(shown)?.shown ?? shown, serviceName)
    entries.resolve(shown)
    return intent
  }

  /** Promises what is written of a node that is to be exchanged; throws for one that cannot be. */
  async prepareExchange(node: FileNode): Promise<void> {
    this.#refuseMoved(node)
    this.refuseShared(node)
    if (isNode(node)) throw new DriveError('invalid', 'A node of this machine is not exchanged.')
    if (node.hasUnpromised) await this.#deps.committer.commit(node)
  }

  /** Half of an exchange. It is not taken back, however the upload ends: so a power cut must not take it either. */
  async recordExchanged({ entry }: FileNode, name: string): Promise<void> {
    if (entry === undefined) throw goneFile()
    const intent = await this.#recordRename(entry, name, NOTHING)
    if (intent === undefined) return
    await this.#deps.outbox.update(intent.id, (latest) => latest, { durable: true })
  }

  /** Puts new content under a name, in the place of what has it; a folder goes on to collect changes. */
  async putNew(to: string, what: NewContent, id: IntentId): Promise<PutIntent> {
    const { entries, rootNames } = this.#deps
    const target = entries.resolve(to)
    const isFolder = what.isFolder === true
    const { serviceName, replaced } = this.#placeOf(target, to, { isFolder })
    const intent = await this.#deps.puts.add(serviceName, replaced, what, id)
    if (target !== undefined) rootNames.unlink(target)
    entries.resolve(to)
    return intent
  }

  /** Gives what was written without a name a free one, and promises it. */
  async giveName(node: FileNode, name: string): Promise<void> {
    const { rootNames, committer } = this.#deps
    rootNames.rename(node, name, name)
    try {
      await committer.commit(node)
    } catch (error) {
      rootNames.unlink(node)
      throw error
    }
  }

  /** A fifo, a socket or a device, under a free name. */
  async putNode(name: string, made: MadeAttributes, special: SpecialNode): Promise<void> {
    const { outbox, puts, clock, entries } = this.#deps
    const { id, path } = outbox.createDraft()
    try {
      await writeFile(path, '', { mode: 0o600 })
    } catch (error) {
      throw fromFileSystem(error, 'A node cannot be kept')
    }
    const content = { from: 'staged', length: 0, sha256: EMPTY_SHA256 } as const
    const what = { description: '', ...made, mtimeMs: clock.now(), content, special }
    await puts.add(name, NOTHING, { ...what, phase: 'local' }, id)
    entries.resolve(name)
  }

  /** The names that a renamed file gets, and what it takes the place of. */
  #placeOf(
    target: FileNode | undefined,
    to: string,
    kind: { readonly isFolder: boolean },
  ): { readonly shown: string; readonly serviceName: string; readonly replaced: Base } {
    if (target === undefined) {
      checkTypedName(to)
      return { shown: to, serviceName: to, replaced: NOTHING }
    }
    this.refuseShared(target)
    this.#refuseOfKind(target, kind)
    const { name = to, serviceName } = target
    return { shown: name, serviceName, replaced: this.#baseOf(target) }
  }

  #refuseMoved(node: FileNode): void {
    const { name } = node
    if (name !== undefined && this.#deps.entries.resolve(name) === node) return
    throw new DriveError('stale', 'The name leads to something else now.')
  }

  /**
   * What goes may only be a file, or an empty folder. That was looked at before, and another machine may have put
   * something else there meanwhile: so it is looked at once more in the moment in which it goes.
   */
  #refuseOfKind(node: FileNode, { isFolder }: { readonly isFolder: boolean }): void {
    const { kinds, folders } = this.#deps
    const { entry, hasUnpromised } = node
    const isKnown = hasUnpromised || kinds.isLearned(entry)
    if (!isKnown || (!hasUnpromised && node.isFolder) !== isFolder)
      throw new DriveError('stale', 'The name leads to something else now.')
    if (isFolder) folders.refuseFullNow(node)
  }

  /** Gives a file another description; the service can only take it with a new upload. */
  async describe(node: FileNode, description: string): Promise<PutIntent | undefined> {
    const { entry } = node
    if (entry?.kind === 'bag') {
      this.refuseShared(node)
      return this.#putBag(entry, node.serviceName, NOTHING, description)
    }
    if (entry === undefined) return undefined
    // The service has it with the description that it had then.
    if (isAnswered(entry.intent)) {
      return this.#putAgain({ ...entry.intent, description }, node.serviceName, NOTHING)
    }
    const updated = await this.#deps.outbox.update(
      entry.intent.id,
      ofPut((latest) => described(latest, description)),
      { durable: true },
    )
    return updated?.kind === 'put' ? updated : undefined
  }

  /** What stays on this machine is never sent, so it takes the place of nothing: what has the name is removed. */
  async #renameHere(
    node: FileNode,
    target: FileNode | undefined,
    { shown, serviceName }: { readonly shown: string; readonly serviceName: string },
  ): Promise<undefined> {
    const { puts, rootNames, entries, uploader } = this.#deps
    if (node.entry?.kind !== 'pending') throw goneFile()
    if (target !== undefined) await this.unlink(target, { mayBeReplaced: false })
    const change = (put: PutIntent, base: Replaced): PutIntent =>
      put.changes === undefined
        ? renamed(put, serviceName, { phase: 'local' }, base)
        : renamedFolder(put, serviceName, base)
    await puts.move(node.entry.intent.id, serviceName, NOTHING, change, { durable: true })
    rootNames.rename(node, shown, serviceName)
    entries.resolve(shown)
    uploader.kick()
  }

  /** Content that no intent promises yet just gets another name; over old content it is promised at once. */
  async #renameDraft(
    node: FileNode,
    to: { readonly shown: string; readonly serviceName: string; readonly replaced: Base },
  ): Promise<PutIntent | undefined> {
    const { staged } = node
    if (staged === undefined) return undefined
    const hadBase = staged.base.replaces.length + staged.base.supersedes.length > 0
    staged.base = joined(staged.base, to.replaced)
    this.#deps.rootNames.rename(node, to.shown, to.serviceName)
    return hadBase ? this.#deps.committer.commit(node) : undefined
  }

  async #recordRename(entry: Entry, name: string, replaced: Base): Promise<PutIntent | undefined> {
    if (entry.kind === 'bag') return this.#putBag(entry, name, replaced)
    const { intent } = entry
    if (intent.changes !== undefined) return this.#renameFolder(intent, name, replaced)
    if (this.#isBackInPlace(intent, name)) {
      await this.#deps.outbox.remove(intent.id)
      return undefined
    }
    if (this.#deps.uploader.isRunning(intent.id) || wasSent(intent)) {
      return this.#putAgain(intent, name, replaced)
    }
    const { puts } = this.#deps
    const phase = puts.phaseFor(name)
    const change = (put: PutIntent, base: Replaced): PutIntent => renamed(put, name, phase, base)
    return puts.move(intent.id, name, replaced, change, puts.durabilityOf(phase))
  }

  /** A folder that collects changes goes on to do so under its new name. */
  async #renameFolder(intent: PutIntent, name: string, replaced: Base): Promise<undefined> {
    if (this.#deps.uploader.isRunning(intent.id) || isAnswered(intent)) {
      throw new DriveError('busy', 'The folder is being stored right now.')
    }
    const change = (put: PutIntent, base: Replaced): PutIntent => renamedFolder(put, name, base)
    await this.#deps.puts.move(intent.id, name, replaced, change, { durable: true })
    this.#deps.uploader.kick()
  }

  /** The service has no rename: the same content goes up under the new name, then the old bag goes. */
  async #putBag(
    entry: Extract<Entry, { kind: 'bag' }>,
    name: string,
    replaced: Base,
    description = entry.record.description,
  ): Promise<PutIntent> {
    const { record } = entry
    const known = this.#deps.facts.get(record.bagId)
    const length = this.#lengthOf(record)
    const base = joined({ replaces: [record.bagId], supersedes: [] }, replaced)
    return this.#deps.puts.add(name, base, {
      description,
      ...(known?.kind === 'folder'
        ? { isFolder: true, changes: { base: record.bagId, start: 0 } }
        : {}),
      ...attributesOfBag(record, known, this.#settings),
      ctimeMs: this.#deps.clock.now(),
      content: {
        from: 'bag',
        bagId: record.bagId,
        ...(length === undefined ? {} : { length }),
      },
    })
  }

  /** What is, or may be, at the service under the old name goes up once more under the new one. */
  async #putAgain(intent: PutIntent, name: string, replaced: Base): Promise<PutIntent> {
    const draft = this.#deps.outbox.createDraft()
    const content = await shareContent(this.#deps.outbox, intent, draft.path)
    const { description } = intent
    const base = joined({ replaces: [], supersedes: [intent.id] }, replaced)
    const folder = intent.isFolder === true ? { isFolder: true } : {}
    const kept = { ...keptOf(intent), ctimeMs: this.#deps.clock.now() }
    const what = { description, ...kept, content, ...folder }
    return this.#deps.puts.add(name, base, what, draft.id)
  }

  /**
   * True when a held rename of a bag is undone: the name is free, the bag has it at the service all along, and shows
   * again once the rename is forgotten.
   */
  #isBackInPlace(intent: PutIntent, name: string): boolean {
    const { entries, outbox } = this.#deps
    const { content } = intent
    if (content.from !== 'bag' || intent.phase === 'waiting') return false
    if (entries.tree().resolve(name) !== undefined) return false
    const isNamed = (recordName: string): boolean =>
      listedAs(recordName, { ...intent, name }) !== undefined
    const isListed = entries.recordsOf(content.bagId).some((record) => isNamed(record.name))
    return isListed && isOnlyChangeOf(outbox, intent, { bagId: content.bagId, name })
  }

  /**
   * What is replaced with a node. The put that stored a folder may be about to collect what was changed since: then the
   * folder would come back.
   */
  #baseOf(node: FileNode): Base {
    const base = baseOf(node)
    const { entry } = node
    if (entry?.kind !== 'bag') return base
    const { bagId } = entry.record
    if (this.#deps.facts.get(bagId)?.kind !== 'folder') return base
    const puts = this.#deps.outbox
      .intents()
      .filter((put) => put.kind === 'put' && put.changes !== undefined && put.bagId === bagId)
    return joined(base, { replaces: [], supersedes: puts.map(({ id }) => id) })
  }

  /** Name at the service of what a node shows: what was sent under it must arrive before it is deleted. */
  #recordName(node: FileNode): string {
    const { entry } = node
    if (entry?.kind === 'bag') return entry.record.name
    const content = entry?.intent.content
    if (content?.from !== 'bag') return node.serviceName
    return this.#deps.entries.recordsOf(content.bagId)[0]?.name ?? node.serviceName
  }

  /** DELETE takes a bag away from every record: an entry that shares its bag cannot go alone. */
  refuseShared(node: FileNode): void {
    const { entry } = node
    if (entry?.kind !== 'bag' || !this.#deps.puts.isShared(entry.record.bagId)) return
    throw new DriveError('busy', 'Another file of the account is the same bag.', {
      hint: 'The service can only delete both: use `bagfs rm` with the bag id.',
    })
  }
}

/** True for what is not sent: a fifo, a socket, a device, or a folder that nothing is in. */
function staysHere(node: FileNode): boolean {
  if (isNode(node)) return true
  const { entry, hasUnpromised } = node
  if (hasUnpromised || entry?.kind !== 'pending') return false
  return entry.intent.phase === 'local' && entry.intent.changes !== undefined
}

/** True for a fifo, a socket or a device. */
export function isNode({ entry }: FileNode): boolean {
  return entry?.kind === 'pending' && entry.intent.special !== undefined
}
