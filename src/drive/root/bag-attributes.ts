import { DriveError } from '../../domain/errors.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import type { Intent, PutIntent } from '../../intents/intent.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import { percentOf, stateOfIntent } from '../../outbox/words.ts'
import type { Kinds } from './kinds.ts'
import type { FileNode } from '../tree/nodes.ts'

const PREFIX = 'user.bagfs.'

/** Extended attributes of a file, without their common prefix `user.bagfs.`. */
type AttributeName = 'bag_id' | 'state' | 'description' | 'kind'

const NAMES: readonly AttributeName[] = ['bag_id', 'state', 'description', 'kind']

interface BagAttributesDeps {
  readonly kinds: Kinds
  readonly outbox: Outbox
  readonly uploader: Uploader
}

/** What a file tells in `user.bagfs.*`. */
export class BagAttributes {
  readonly #deps: BagAttributesDeps

  constructor(deps: BagAttributesDeps) {
    this.#deps = deps
  }

  list(node: FileNode): readonly string[] {
    return NAMES.filter((name) => this.#value(node, name) !== undefined).map(
      (name) => PREFIX + name,
    )
  }

  /** Throws `no-attribute` when the file has none of this name. */
  get(node: FileNode, name: string): string {
    const known = NAMES.find((each) => PREFIX + each === name)
    const value = known === undefined ? undefined : this.#value(node, known)
    if (value === undefined) throw new DriveError('no-attribute', `There is no attribute ${name}.`)
    return value
  }

  /** Whether a name is one that people may set: description and kind. */
  settable(name: string): 'description' | 'kind' | undefined {
    if (name === `${PREFIX}description`) return 'description'
    return name === `${PREFIX}kind` ? 'kind' : undefined
  }

  setKind(node: FileNode, value: string): void {
    const bagId = bagIdOf(node)
    if (value !== 'file' && value !== 'folder') {
      throw new DriveError('invalid', 'A kind is "file" or "folder".')
    }
    if (bagId === undefined) {
      // `mv` and `cp -a` hand a new one the kind of what it is made from.
      if (value === this.#kindOf(node)) return
      throw new DriveError('busy', 'This file is not stored yet.')
    }
    this.#deps.kinds.set(bagId, value)
  }

  #value(node: FileNode, name: AttributeName): string | undefined {
    switch (name) {
      case 'bag_id':
        return bagIdOf(node)
      case 'state':
        return this.stateOf(node)
      case 'description':
        return descriptionOf(node)
      case 'kind':
        return this.#kindOf(node)
    }
  }

  #kindOf(node: FileNode): string {
    return node.isFolder ? 'folder' : 'file'
  }

  /** One plain phrase: stored, being written, held, local only, waiting, uploading, failed. */
  stateOf({ hasUnpromised, entry }: FileNode): string {
    return this.stateOfContent(
      hasUnpromised,
      entry?.kind === 'pending' ? entry.intent.id : undefined,
    )
  }

  /** As `stateOf`, also of what is in a folder; `change` is the one that promises the content, if any does. */
  stateOfContent(isWritten: boolean, change: IntentId | undefined): string {
    if (isWritten) return 'being written'
    const latest = change === undefined ? undefined : this.#deps.outbox.get(change)
    return latest === undefined ? 'stored' : stateOfIntent(latest, this.#percentOf(latest))
  }

  #percentOf(intent: Intent): number | undefined {
    const upload = this.#deps.uploader.progress().find((each) => each.id === intent.id)
    return upload === undefined ? undefined : percentOf(upload)
  }
}

/** The bag that a node is; of content that waits, the one that it is from or that an upload was answered with. */
export function bagIdOf(node: FileNode): BagId | undefined {
  const { entry } = node
  if (node.hasUnpromised || entry === undefined) return undefined
  if (entry.kind === 'bag') return entry.record.bagId
  return bagOfPut(entry.intent)
}

function bagOfPut(intent: PutIntent): BagId | undefined {
  return intent.content.from === 'bag' ? intent.content.bagId : intent.bagId
}

function descriptionOf(node: FileNode): string | undefined {
  const { entry, staged } = node
  if (staged?.hasUnpromised === true && staged.description !== undefined) return staged.description
  if (entry === undefined) return undefined
  return entry.kind === 'bag' ? entry.record.description : entry.intent.description
}
