import type { Clock } from '../../domain/clock.ts'
import type { IntentId } from '../../domain/ids.ts'
import type { BagFacts, FactsAccess } from '../../domain/record.ts'
import { ofPut, withAttributes } from '../../intents/transitions.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { AttributeChanges, Attributes } from '../tree/attributes.ts'
import type { Contents } from './contents.ts'
import type { Entries } from './entries.ts'
import type { Kinds } from './kinds.ts'
import { ROOT, type FileNode } from '../tree/nodes.ts'
import { usualMode, type DriveSettings } from '../settings.ts'

interface RootAttributesDeps {
  readonly contents: Contents
  readonly entries: Entries
  readonly kinds: Kinds
  readonly facts: FactsAccess
  readonly outbox: Outbox
  readonly clock: Clock
}

/** What stat tells of the root and what is in it. */
export class RootAttributes {
  readonly #deps: RootAttributesDeps
  readonly #settings: DriveSettings
  readonly #startedAtMs: number

  constructor(deps: RootAttributesDeps, settings: DriveSettings) {
    this.#deps = deps
    this.#settings = settings
    this.#startedAtMs = deps.clock.now()
  }

  root(): Attributes {
    const time = Math.max(this.#startedAtMs, this.#deps.entries.changedAtMs)
    return {
      node: ROOT,
      kind: 'directory',
      size: 0,
      mode: usualMode(true, this.#settings),
      mtimeMs: time,
      atimeMs: time,
      ctimeMs: time,
    }
  }

  of(node: FileNode): Attributes {
    const { staged, entry } = node
    const facts = this.#factsOf(node)
    const isFolder = this.#deps.kinds.isFolder(entry)
    const mtimeMs = staged?.mtime ?? mtimeOf(node, facts)
    const size = staged?.size ?? this.#tellSize(node)
    return {
      node: node.id,
      kind: isFolder ? 'directory' : 'file',
      size: isFolder ? 0 : size,
      mode: this.#modeOf(node, facts, isFolder),
      mtimeMs,
      atimeMs: Math.max(facts?.atimeMs ?? mtimeMs, 0),
      ctimeMs: Math.max(mtimeMs, staged?.lastWriteMs ?? 0),
    }
  }

  /** The size of a node that is not written here, which the kernel is told now. */
  #tellSize(node: FileNode): number {
    const { entry } = node
    if (entry === undefined) return 0
    const size = this.#deps.contents.sizeOf(entry)
    if (entry.kind === 'bag') node.tell(entry.record.bagId, size, this.#deps.clock.now())
    return size
  }

  /** Permission bits. */
  modeOf(node: FileNode): number {
    return this.#modeOf(node, this.#factsOf(node), this.#deps.kinds.isFolder(node.entry))
  }

  /** chmod and utimens: kept with content that waits, else with the facts of the bag. */
  async change(node: FileNode, changes: AttributeChanges): Promise<void> {
    const { staged, entry, name } = node
    if (staged !== undefined) {
      staged.mode = changes.mode ?? staged.mode
      staged.mtimeMs = changes.mtimeMs ?? staged.mtimeMs
      if (staged.isDraft) return
      await this.#changeIntent(staged.id, changes)
    }
    if (entry?.kind === 'pending') {
      await this.#changeIntent(entry.intent.id, changes)
      // A stat that asks by the node must not be told what the intent was before.
      if (name !== undefined) this.#deps.entries.resolve(name)
    }
    if (entry?.kind === 'bag') this.#deps.facts.learn(entry.record.bagId, changes)
  }

  async #changeIntent(id: IntentId, changes: AttributeChanges): Promise<void> {
    const updated = await this.#deps.outbox.update(
      id,
      ofPut((latest) => withAttributes(latest, changes)),
      { durable: false },
    )
    const bagId = updated?.kind === 'put' ? updated.bagId : undefined
    if (bagId !== undefined) this.#deps.facts.learn(bagId, changes)
  }

  #modeOf({ staged, entry }: FileNode, facts: BagFacts | undefined, isFolder: boolean): number {
    if (staged !== undefined) return staged.mode
    if (entry?.kind === 'pending') return entry.intent.mode
    return facts?.mode ?? usualMode(isFolder, this.#settings)
  }

  #factsOf({ entry }: FileNode): BagFacts | undefined {
    return entry?.kind === 'bag' ? this.#deps.facts.get(entry.record.bagId) : undefined
  }
}

function mtimeOf({ entry }: FileNode, facts: BagFacts | undefined): number {
  if (entry === undefined) return 0
  if (entry.kind === 'pending') return entry.intent.mtimeMs
  return facts?.mtimeMs ?? entry.record.uploadedAtMs
}
