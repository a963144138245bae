import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { ifThere } from '../../disk/if-there.ts'
import {
  keptOf,
  withChanges,
  type AttributeChanges,
  type KeptAttributes,
} from '../../domain/attributes.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Folder } from './folder.ts'
import type { LocalContent } from './item-content.ts'
import { Children, touch, type DirectoryItem, type Item } from './items.ts'
import type { Operation, JournalItem } from './journal.ts'
import type { LocalContents } from './local-contents.ts'

/** Where a path ends. */
interface PathEnd {
  readonly parent: DirectoryItem
  readonly children: Children
  readonly name: string
}

/** What every item begins with. */
type ItemStart = Pick<Item, 'id' | 'parent' | 'name'> & KeptAttributes

/** Operations that something comes to a place by. */
const MAKING: ReadonlySet<Operation['op']> = new Set(['directory', 'symlink', 'file', 'tree'])

/** Of a directory that only paths tell of. */
const UNKNOWN_MODE = 0o755

/**
 * Makes the changes of a journal to the tree again. What no longer fits (content that was never
 * closed, a name that is gone) is left out with a word in the log: it was not promised.
 */
export class Replay {
  readonly #folder: Folder
  readonly #contents: LocalContents
  readonly #filesDir: string
  readonly #isBaseUnknown: boolean
  readonly #log: Logger

  constructor(
    parts: {
      readonly folder: Folder
      readonly contents: LocalContents
      readonly filesDir: string
      /** Nothing tells which directories the base had. */
      readonly isBaseUnknown?: boolean
    },
    log: Logger,
  ) {
    this.#folder = parts.folder
    this.#contents = parts.contents
    this.#filesDir = parts.filesDir
    this.#isBaseUnknown = parts.isBaseUnknown === true
    this.#log = log
  }

  async run(operations: readonly Operation[]): Promise<void> {
    for (const operation of operations) {
      const done = await this.#apply(operation)
      if (!done) this.#log.debug({ operation }, 'A change of a folder no longer applies.')
    }
  }

  async #apply(operation: Operation): Promise<boolean> {
    const { op, path } = operation
    const place = await this.#placeOf(path, MAKING.has(op) ? timeOf(operation) : undefined)
    if (place === undefined) return op === 'attributes'
    const { parent, children, name } = place
    if (operation.op !== 'attributes') touch(parent, operation.atMs)
    switch (operation.op) {
      case 'directory':
        this.#addDirectory(parent, children, this.#base(name, madeBy(operation)))
        return true
      case 'symlink':
        this.#add(parent, children, {
          type: 'symlink',
          target: operation.target,
          ...this.#base(name, madeBy(operation)),
        })
        return true
      case 'file':
        return this.#file(parent, children, name, operation)
      case 'tree':
        return this.#tree(place, operation.entries)
      case 'remove':
        return children.delete(name)
      case 'rename':
        return this.#rename(children, name, operation.to, operation.atMs)
      case 'attributes':
        return setAttributes(children.get(name), operation)
    }
  }

  #base(name: string, kept: KeptAttributes): ItemStart {
    return { id: this.#folder.nextNode(), parent: undefined, name, ...keptOf(kept) }
  }

  #add(parent: DirectoryItem, children: Children, item: Item): void {
    this.#folder.add(parent, children, item)
  }

  async #file(
    parent: DirectoryItem,
    children: Children,
    name: string,
    operation: Extract<Operation, { op: 'file' }>,
  ): Promise<boolean> {
    const { file } = operation
    const content = await this.#stagedContent(file)
    if (content === undefined) return false
    content.hasSum = operation.sha256 !== undefined
    const known = children.get(name)
    if (known?.type === 'file' && known.content.from === 'local' && known.content.file === file) {
      known.content.length = content.length
      known.content.hasSum = content.hasSum
      Object.assign(known, keptOf(operation))
      return true
    }
    const base = this.#base(name, operation)
    this.#add(parent, children, { type: 'file', content, handles: 0, ...base })
    return true
  }

  async #stagedContent(file: string): Promise<LocalContent | undefined> {
    const path = join(this.#filesDir, file)
    const length = await sizeOf(path)
    if (length === undefined) return undefined
    return this.#contents.kept({ file, path }, length)
  }

  /** False when some content is gone; all else is there. */
  async #tree(place: PathEnd, items: readonly JournalItem[]): Promise<boolean> {
    const directories = new Map<string, DirectoryItem>()
    let isWhole = true
    for (const described of items) {
      const end = described.path.lastIndexOf('/')
      const name = described.path === '' ? place.name : described.path.slice(end + 1)
      const above = directories.get(described.path.slice(0, Math.max(end, 0)))
      const parent = described.path === '' ? place.parent : above
      const item = await this.#itemOf(described, name)
      if (parent?.children === undefined || item === undefined) isWhole = false
      else this.#add(parent, parent.children, item)
      if (item?.type === 'directory') directories.set(described.path, item)
    }
    return isWhole
  }

  async #itemOf(described: JournalItem, name: string): Promise<Item | undefined> {
    const { type } = described
    const base = this.#base(name, described)
    if (type === 'symlink') return { type, target: described.target, ...base }
    if (type === 'directory')
      return { type, children: new Children(), archived: undefined, ...base }
    const content = await this.#stagedContent(described.file)
    if (content === undefined) return undefined
    content.hasSum = described.sha256 !== undefined
    return { type, content, handles: 0, ...base }
  }

  async #rename(children: Children, name: string, to: string, atMs: number): Promise<boolean> {
    const item = children.get(name)
    if (item === undefined) return false
    const target = await this.#placeOf(to, atMs)
    if (target === undefined) return false
    children.delete(name)
    item.name = target.name
    item.ctimeMs = atMs
    this.#folder.add(target.parent, target.children, item)
    touch(target.parent, atMs)
    return true
  }

  /** Where a path ends: undefined when its directory is not there. For what comes there at `atMs` an unknown one is made. */
  async #placeOf(path: string, atMs?: number): Promise<PathEnd | undefined> {
    const names = path.split('/')
    const name = names.pop() ?? ''
    let parent = this.#folder.top
    for (const step of names) {
      const children = await this.#folder.children(parent)
      const next = children.get(step) ?? this.#missing(parent, children, step, atMs)
      if (next?.type !== 'directory') return undefined
      parent = next
    }
    return { parent, children: await this.#folder.children(parent), name }
  }

  #missing(
    parent: DirectoryItem,
    children: Children,
    name: string,
    atMs: number | undefined,
  ): DirectoryItem | undefined {
    if (!this.#isBaseUnknown || atMs === undefined) return undefined
    return this.#addDirectory(
      parent,
      children,
      this.#base(name, { mode: UNKNOWN_MODE, mtimeMs: atMs }),
    )
  }

  #addDirectory(parent: DirectoryItem, children: Children, base: ItemStart): DirectoryItem {
    const item: DirectoryItem = {
      type: 'directory',
      children: new Children(),
      archived: undefined,
      ...base,
    }
    this.#add(parent, children, item)
    return item
  }
}

function timeOf(operation: Operation): number | undefined {
  return operation.op === 'attributes' ? undefined : operation.atMs
}

function setAttributes(
  item: Item | undefined,
  operation: Extract<Operation, { op: 'attributes' }>,
): boolean {
  if (item === undefined) return false
  Object.assign(item, withChanges(item, operation))
  return true
}

/** Attributes of what is made by an operation, which an older version wrote without all of them. */
function madeBy(operation: AttributeChanges & { readonly atMs: number }): KeptAttributes {
  return withChanges({ mode: 0o777, mtimeMs: operation.atMs }, operation)
}

async function sizeOf(path: string): Promise<number | undefined> {
  return (await ifThere(stat(path)))?.size
}
