import {
  keptOf,
  withChanges,
  type AttributeChanges,
  type KeptAttributes,
  withAllTimes,
} from '../../domain/attributes.ts'
import type { Clock } from '../../domain/clock.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import type { BagFacts, BagRecord, FactsAccess } from '../../domain/record.ts'
import { ofPut, withAttributes } from '../../intents/transitions.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Accesses } from '../tree/accesses.ts'
import type { Attributes } from '../tree/attributes.ts'
import type { Contents } from './contents.ts'
import type { Entry } from '../../namespace/entry.ts'
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
  readonly accesses: Accesses
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
    this.#noteTold(node)
    return this.peek(node, node.entry)
  }

  /** What a node would be with an entry; the kernel is not told it. */
  peek(node: FileNode, entry: Entry | undefined): Attributes {
    const { staged, readAtMs } = node
    const isFolder = this.#deps.kinds.isFolder(entry)
    const size = isFolder ? 0 : (staged?.size ?? this.#sizeOf(entry))
    const special = entry?.kind === 'pending' ? entry.intent.special : undefined
    const kind = special?.kind ?? (isFolder ? 'directory' : 'file')
    const device = special?.device
    return {
      node: node.id,
      kind,
      device,
      size,
      allocated: isFolder ? undefined : this.#allocatedOf(node, entry),
      ...withAllTimes(this.#keptOf({ staged, entry, readAtMs })),
    }
  }

  #sizeOf(entry: Entry | undefined): number {
    return entry === undefined ? 0 : this.#deps.contents.sizeOf(entry)
  }

  #allocatedOf({ staged }: FileNode, entry: Entry | undefined): number | undefined {
    if (staged !== undefined) return staged.allocated
    return entry === undefined ? undefined : this.#deps.contents.allocatedOf(entry)
  }

  /** The kernel is told the size of a node now, which is not written here. */
  #noteTold(node: FileNode): void {
    const { entry, staged } = node
    if (entry?.kind !== 'bag' || staged !== undefined || node.isFolder) return
    node.noteShownSize(entry.record.bagId, this.#sizeOf(entry), this.#deps.clock.now())
  }

  /** It is read: false when its atime stays. Kept in memory for a minute, then as if it were set. */
  moveAtime(node: FileNode, nowMs: number): boolean {
    const { accesses } = this.#deps
    if (!accesses.isMoving(this.#keptOf(node), nowMs)) return false
    node.readAtMs = nowMs
    accesses.note(node, async () => {
      const { readAtMs } = node
      if (readAtMs !== undefined) await this.change(node, { atimeMs: readAtMs })
    })
    return true
  }

  /** Kept with content that waits, else with the facts of the bag. */
  async change(node: FileNode, changes: AttributeChanges): Promise<void> {
    const { staged, entry, name } = node
    if (staged !== undefined) {
      staged.change(changes)
      if (staged.isDraft) return
      await this.#changeIntent(staged.id, changes)
    }
    if (entry?.kind === 'pending') {
      await this.#changeIntent(entry.intent.id, changes)
      // A stat that asks by the node must not be told what the intent was before.
      if (name !== undefined) this.#deps.entries.resolve(name)
    }
    if (entry?.kind === 'bag') await this.#changeBag(node, entry.record.bagId, changes)
    if (changes.atimeMs !== undefined) node.readAtMs = undefined
  }

  /** What stored it a moment ago may be shown once more by the next mount, and a folder goes on to collect changes with it. */
  async #changeBag(node: FileNode, bagId: BagId, changes: AttributeChanges): Promise<void> {
    const { facts, outbox } = this.#deps
    const { atimeMs } = withChanges(this.#keptOf(node), changes)
    facts.learn(bagId, { ...changes, atimeMs })
    const puts = outbox.ofBag(bagId).filter((each) => each.kind === 'put' && each.bagId === bagId)
    await Promise.all(puts.map(({ id }) => this.#changeIntent(id, { ...changes, atimeMs })))
  }

  async #changeIntent(id: IntentId, changes: AttributeChanges): Promise<void> {
    const updated = await this.#deps.outbox.update(
      id,
      ofPut((latest) => withAttributes(latest, changes)),
      { durable: false },
    )
    if (updated?.kind !== 'put' || updated.bagId === undefined) return
    this.#deps.facts.learn(updated.bagId, keptOf(updated))
  }

  #keptOf(node: Pick<FileNode, 'staged' | 'entry' | 'readAtMs'>): KeptAttributes {
    const { readAtMs } = node
    const kept = this.#keptElsewhere(node)
    return readAtMs === undefined ? kept : { ...kept, atimeMs: readAtMs }
  }

  #keptElsewhere({ staged, entry }: Pick<FileNode, 'staged' | 'entry'>): KeptAttributes {
    if (staged !== undefined) return staged.attributes
    if (entry === undefined) return NOTHING_KEPT
    if (entry.kind === 'pending') return entry.intent
    const { record } = entry
    return attributesOfBag(record, this.#deps.facts.get(record.bagId), this.#settings)
  }
}

/** Of a node that is being made. */
const NOTHING_KEPT: KeptAttributes = { mode: 0, mtimeMs: 0 }

/** The attributes of a bag: those that were set on this machine, else what its record tells. */
export function attributesOfBag(
  { uploadedAtMs }: BagRecord,
  facts: BagFacts | undefined,
  settings: Pick<DriveSettings, 'umask'>,
): KeptAttributes {
  if (facts === undefined) {
    return { mode: usualMode(false, settings), mtimeMs: uploadedAtMs, ctimeMs: uploadedAtMs }
  }
  const { kind, mtimeMs = uploadedAtMs, atimeMs, ctimeMs = uploadedAtMs } = facts
  const { mode = usualMode(kind === 'folder', settings), uid, gid, extended } = facts
  return { mode, mtimeMs, atimeMs, ctimeMs, uid, gid, extended }
}
