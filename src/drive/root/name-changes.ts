import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { keptOf, type SpecialNode } from '../../domain/attributes.ts'
import type { Clock } from '../../domain/clock.ts'
import { DriveError, fromFileSystem, goneFile } from '../../domain/errors.ts'
import { listedAs } from '../../domain/folder-names.ts'
import { checkTypedName } from '../../domain/names.ts'
import type { IntentId } from '../../domain/ids.ts'
import { joined, NOTHING, type Base } from '../../intents/base.ts'
import type { PutIntent } from '../../intents/intent.ts'
import { isAnswered, isOnlyChangeOf, isTaken, wasSent } from '../../intents/rules.ts'
import type { Replaced } from '../../intents/claims.ts'
import { renamed, renamedFolder } from '../../intents/renames.ts'
import { described, ofPut } from '../../intents/transitions.ts'
import type { BagRecord, FactsAccess } from '../../domain/record.ts'
import type { Entry } from '../../namespace/entry.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { Committer } from './commit.ts'
import type { Entries } from './entries.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { RootNames } from './root-names.ts'
import type { MadeAttributes } from '../tree/home.ts'
import type { NewContent, Puts } from './puts.ts'
import type { Removals } from './removals.ts'
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
  readonly removals: Removals
  readonly facts: Pick<FactsAccess, 'get'>
  readonly clock: Clock
}

/** New names in the root, and new content under a name. Callers hold the lock of names while these run. */
export class NameChanges {
  readonly #deps: NameChangesDeps
  readonly #settings: DriveSettings

  constructor(deps: NameChangesDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#settings = settings
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
  async rename(node: FileNode, from: string, to: string): Promise<PutIntent | undefined> {
    const { entries, rootNames, removals } = this.#deps
    removals.refuseMoved(node, from)
    const target = entries.resolve(to)
    if (target === node) return undefined
    removals.refuseShared(node)
    const { isFolder } = node
    const { shown, serviceName, replaced } = this.#placeOf(target, to, { isFolder })
    if (staysHere(node)) return this.#renameHere(node, target, { shown, serviceName })
    if (node.hasUnpromised) return this.#renameDraft(node, { shown, serviceName, replaced })
    const { entry } = node
    if (entry === undefined) throw goneFile()
    const goOn = entries.holdStill([node])
    try {
      const intent = await this.#recordRename(entry, serviceName, replaced)
      goOn()
      rootNames.rename(node, entries.tree().resolve(shown)?.shown ?? shown, serviceName)
      entries.follow(node)
      return intent
    } finally {
      goOn()
    }
  }

  /** Promises what is written of a node that is to be exchanged; throws for one that cannot be. */
  async prepareExchange(node: FileNode, name: string): Promise<void> {
    this.#deps.removals.refuseMoved(node, name)
    this.#deps.removals.refuseShared(node)
    if (isNode(node)) throw new DriveError('invalid', 'A node of this machine is not exchanged.')
    if (node.hasUnpromised) await this.#deps.committer.commitNamed(node)
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
      await committer.commitNamed(node)
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
    this.#deps.removals.refuseShared(target)
    this.#deps.removals.refuseOfKind(target, kind)
    const { name = to, serviceName } = target
    return { shown: name, serviceName, replaced: this.#deps.removals.baseOf(target) }
  }

  /** Gives a file another description; the service can only take it with a new upload. */
  async describe(node: FileNode, description: string): Promise<PutIntent | undefined> {
    const intent = await this.#recordDescription(node, description)
    this.#deps.entries.follow(node)
    return intent
  }

  async #recordDescription(node: FileNode, description: string): Promise<PutIntent | undefined> {
    const { entry } = node
    if (entry?.kind === 'bag') {
      this.#deps.removals.refuseShared(node)
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
    if (target !== undefined) await this.#deps.removals.unlink(target, { mayBeReplaced: false })
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
    const { base } = staged
    const { name, serviceName } = node
    const { rootNames, committer } = this.#deps
    staged.base = joined(base, to.replaced)
    rootNames.rename(node, to.shown, to.serviceName)
    if (base.replaces.length + base.supersedes.length === 0) return undefined
    try {
      return await committer.commitNamed(node)
    } catch (error) {
      // Else the old content, which shows again, could take the place of what takes its place.
      if (staged.hasUnpromised && name !== undefined && rootNames.named(name) === undefined) {
        staged.base = base
        rootNames.rename(node, name, serviceName)
      }
      throw error
    }
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
    const { outbox, puts, clock } = this.#deps
    const draft = outbox.createDraft()
    try {
      const content = await shareContent(outbox, intent, draft.path)
      const { description } = intent
      const base = joined({ replaces: [], supersedes: [intent.id] }, replaced)
      const folder = intent.isFolder === true ? { isFolder: true } : {}
      const kept = { ...keptOf(intent), ctimeMs: clock.now() }
      return await puts.add(name, base, { description, ...kept, content, ...folder }, draft.id)
    } catch (error) {
      await outbox.discardDraft(draft.id)
      throw error
    }
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
