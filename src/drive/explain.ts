import { posix } from 'node:path'
import type { BagCache } from '../content/bag-cache.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import { toBagId, type BagId, type IntentId, type NodeId } from '../domain/ids.ts'
import { withoutZip } from '../domain/folder-names.ts'
import { encodeName } from '../domain/names.ts'
import type { Entry } from '../namespace/entry.ts'
import type { Logger } from '../domain/logger.ts'
import type { Listing } from '../namespace/listing.ts'
import type { PutIntent } from '../intents/intent.ts'
import { blockersOf } from '../intents/rules.ts'
import { listItems, type OutboxItem } from '../outbox/items.ts'
import type { Outbox } from '../outbox/outbox.ts'
import type { Uploader } from '../outbox/uploader.ts'
import { nameItems } from '../trash/item-names.ts'
import type { TrashItem } from '../trash/item.ts'
import type { Trash } from '../trash/trash.ts'
import type { BytesPlace, Explanation, NameReasons } from './explanation.ts'
import { isSpecial, type Item } from './folders/items.ts'
import type { LeftOut } from './folders/left-out.ts'
import type { Walk } from './find-top.ts'
import type { OpenFolders, Place } from './folders/open-folders.ts'
import type { Conflicts } from './root/conflicts.ts'
import type { Contents } from './root/contents.ts'
import type { Entries } from './root/entries.ts'
import { bagIdOf, type BagAttributes } from './root/bag-attributes.ts'
import type { Kinds } from './root/kinds.ts'
import type { Pins } from './pins.ts'
import type { RootTrash } from './root/root-trash.ts'
import type { Space } from './space/space.ts'
import type { Attributes } from './tree/attributes.ts'
import { ROOT, type FileNode, type Nodes } from './tree/nodes.ts'
import { nameContents } from './virtual/control-directory.ts'
import { VOLUME_INFO } from './virtual/volume-info.ts'
import { trashedWith } from './trashed-inside.ts'

interface ExplainerDeps {
  readonly nodes: Nodes
  readonly entries: Entries
  readonly kinds: Kinds
  readonly contents: Contents
  readonly extended: BagAttributes
  readonly openFolders: OpenFolders
  readonly conflicts: Conflicts
  readonly leftOut: LeftOut
  readonly space: Pick<Space, 'refused'>
  readonly trash: Pick<Trash, 'items' | 'files'>
  readonly log: Logger
  readonly rootTrash: Pick<RootTrash, 'items'>
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly cache: Pick<BagCache, 'heldOf'>
  readonly listing: Pick<Listing, 'status'>
  readonly pins: Pick<Pins, 'of'>
}

type BytesFacts = Pick<Explanation, 'places' | 'cached' | 'isListed' | 'hasOlder'>

/** Links that lead to one another end where the kernel gives up, too. */
const MOST_LINKS = 40
const BAG_ID = /^[0-9a-f]{64}$/
const NOTHING_MORE = {
  places: [],
  changes: [],
  waitsFor: [],
  conflicts: [],
  leftOut: [],
  inTrash: [],
} as const

/** Tells what is at a path, out of what the parts of the drive know; it asks nothing of the service but what `ls` would. */
export class Explainer {
  readonly #deps: ExplainerDeps

  constructor(deps: ExplainerDeps) {
    this.#deps = deps
  }

  /** Rejects `not-found` for a path of which nothing is known. */
  async explain(names: readonly string[], walk: Walk): Promise<Explanation> {
    const [top] = names
    if (top === undefined) return this.#finish({ ...NOTHING_MORE, path: '', what: 'drive' })
    const isMadeUp = top === '.bagfs' || top === '.bags' || this.#isVolumeInfo(names)
    if (isMadeUp) return this.#finish(this.#ofMadeUp(names))
    const pin = this.#deps.pins.of(this.#deps.entries.tree().resolve(top)?.shown ?? top)
    return this.#finish({ ...(await this.#find(names, walk)), ...optionally('pin', pin) })
  }

  /** It is made up only where the account has no file of that name. */
  #isVolumeInfo(names: readonly string[]): boolean {
    const isNamed = names.length === 1 && names[0] === VOLUME_INFO
    return isNamed && this.#deps.entries.resolve(VOLUME_INFO) === undefined
  }

  #finish(explanation: Explanation): Explanation {
    const outage = this.#deps.listing.status().lastError?.message
    return outage === undefined ? explanation : { ...explanation, outage }
  }

  async #find(names: readonly string[], walk: Walk, linksLeft = MOST_LINKS): Promise<Explanation> {
    let parent = ROOT
    for (const [at, name] of names.entries()) {
      let found: Attributes
      try {
        found = await walk.lookup(parent, name)
      } catch (error) {
        if (isDriveError(error, 'not-found', 'not-a-directory')) return this.#ofMissing(names)
        if (at === 0 || !isDriveError(error)) throw error
        return { ...(await this.#ofNode(names.slice(0, at), parent)), unreadable: error.message }
      }
      const rest = names.slice(at + 1)
      if (found.kind === 'symlink' && rest.length > 0 && linksLeft > 0) {
        const target = await walk.readSymlink(found.node)
        const path = posix.join(...names.slice(0, at), target, ...rest)
        return this.#find(path.split('/'), walk, linksLeft - 1)
      }
      parent = found.node
    }
    return this.#ofNode(names, parent)
  }

  async #ofNode(names: readonly string[], id: NodeId): Promise<Explanation> {
    const node = this.#deps.nodes.inRoot(id)
    if (node !== undefined) return this.#ofRoot(names.join('/'), node)
    return this.#ofItem(names, await this.#deps.openFolders.placeOf(id))
  }

  #ofRoot(path: string, node: FileNode): Explanation {
    const { kinds, extended, contents, conflicts, leftOut, space } = this.#deps
    const { entry, staged, serviceName } = node
    const kind = kinds.shown(entry) ?? 'file'
    const what = kind === 'directory' ? 'folder' : kind === 'file' ? 'file' : 'special'
    const bagId = bagIdOf(node)
    const bytes = node.hasUnpromised ? staged?.size : entry && contents.sizeOf(entry)
    const changes = this.#changesOf(node, bagId)
    const refused = space.refused().find(({ name }) => name === serviceName)
    const isOurs = (each: { name: string; other: string }): boolean =>
      each.other === path || encodeName(each.name) === path
    return {
      ...NOTHING_MORE,
      path,
      what,
      state: extended.stateOf(node),
      ...(bagId === undefined ? {} : { bagId }),
      ...(bytes === undefined || what === 'special' ? {} : { bytes }),
      ...this.#bytesOf(node, bagId),
      ...(entry === undefined ? {} : optionally('name', this.#nameReasons(entry))),
      changes,
      waitsFor: this.#waitsFor(changes),
      conflicts: conflicts.list().filter(isOurs).map(toTold),
      leftOut: leftOut.list().filter(({ folder }) => folder === serviceName),
      ...optionally('refused', refused),
    }
  }

  /** Where the bytes of a file or folder of the root are. */
  #bytesOf({ hasUnpromised, entry }: FileNode, bagId: BagId | undefined): BytesFacts {
    if (hasUnpromised || entry === undefined) {
      return { places: ['this-machine'], ...(entry?.kind === 'bag' ? { hasOlder: true } : {}) }
    }
    if (entry.kind === 'bag') return this.#bytesOfBag(entry.record.bagId)
    return this.#bytesOfPut(entry.intent, bagId)
  }

  #bytesOfPut(
    { content, phase, changes, replaces, restores }: PutIntent,
    bagId: BagId | undefined,
  ): BytesFacts {
    if (phase === 'local') return { places: ['this-machine'] }
    const hasOlder = replaces.length > 0 ? { hasOlder: true } : {}
    if (content.from === 'bag') return { ...this.#bytesOfBag(content.bagId), ...hasOlder }
    // What was answered with an id is not proven to be there.
    const base = content.from === 'folder' ? (bagId ?? changes?.base) : undefined
    // What comes back from the trash was deleted there.
    const isThere = base !== undefined && base !== restores
    return { places: ['outbox'], ...(isThere ? { hasOlder: true } : hasOlder) }
  }

  #bytesOfBag(bagId: BagId): BytesFacts {
    const { bytes, isComplete, isDownloading } = this.#deps.cache.heldOf(bagId)
    const isListed = this.#deps.entries.recordsOf(bagId).length > 0
    const isPart = !isComplete && (bytes > 0 || isDownloading)
    const places: BytesPlace[] = ['service']
    if (isComplete) places.push('cache')
    if (!isPart) return { places, isListed }
    return { places: [...places, 'part-in-cache'], cached: { bytes, isDownloading }, isListed }
  }

  #nameReasons(entry: Entry): NameReasons | undefined {
    const { entries } = this.#deps
    const { shown } = entry
    const service = entry.kind === 'bag' ? entry.record.name : entry.intent.name
    const plain = entries.plainOf(entry)
    const isZipped = plain !== encodeName(service)
    const named = isZipped ? withoutZip(service) : service
    const isCut = Buffer.byteLength(named) > 255
    const why: NameReasons['why'][number][] = []
    if (plain !== named) why.push(isCut ? 'cut' : 'coded')
    if (isZipped) why.push('zip')
    if (shown !== plain) why.push('older')
    const others = entries
      .tree()
      .relatives(shown)
      .filter((other) => other.shown !== shown && entries.plainOf(other) === plain)
      .map((other) => other.shown)
    return why.length + others.length === 0 ? undefined : { service, why, others }
  }

  /** Changes of an entry that are not done: its own, and of a stored one what is left of the change that stored it. */
  #changesOf({ entry }: FileNode, bagId: BagId | undefined): readonly OutboxItem[] {
    const own = entry?.kind === 'pending' ? entry.intent.id : undefined
    return this.#items().filter(({ id }) => {
      if (id === own) return true
      return bagId !== undefined && this.#deps.outbox.put(id)?.bagId === bagId
    })
  }

  #waitsFor(changes: readonly OutboxItem[]): readonly OutboxItem[] {
    const { outbox, uploader } = this.#deps
    const own = new Set(changes.map(({ id }) => id))
    const ids = new Set<IntentId>()
    for (const { id } of changes) {
      const intent = outbox.get(id)
      if (intent === undefined) continue
      for (const each of blockersOf(intent, outbox, (one) => uploader.isRunning(one))) ids.add(each)
    }
    return this.#items().filter(({ id }) => ids.has(id) && !own.has(id))
  }

  #ofItem(names: readonly string[], { open, item }: Place): Explanation {
    const { extended, leftOut, space } = this.#deps
    const { node } = open.folder
    const changes = this.#items().filter(({ id }) => id === open.intentId)
    const folder = node.name ?? names[0] ?? ''
    const refused = space.refused().find(({ name }) => name === node.serviceName)
    const inside = names.slice(1).join('/')
    const known = {
      ...NOTHING_MORE,
      path: names.join('/'),
      what: whatIs(item),
      folder,
      changes,
      waitsFor: this.#waitsFor(changes),
      leftOut: leftOut
        .list()
        .filter((each) => each.folder === node.serviceName && each.path === inside),
      ...optionally('refused', refused),
    }
    if (isSpecial(item)) return { ...known, changes: [], waitsFor: [], places: ['this-machine'] }
    if (item.type !== 'file') return known
    const bytes = open.files.sizeOf(item)
    const { content } = item
    if (content.from === 'local') {
      const state = extended.stateOfContent(content.isWritten, open.intentId)
      const place = state === 'stored' ? 'service' : content.isWritten ? 'this-machine' : 'outbox'
      return { ...known, bytes, state, places: [place] }
    }
    const bagId = open.folder.bagOf(content.archive)
    const state = extended.stateOfContent(false, undefined)
    if (bagId === undefined) return { ...known, bytes, state }
    return { ...known, bytes, state, ...this.#bytesOfBag(bagId) }
  }

  /** What was deleted, or left out of a folder. Rejects `not-found` when nothing is known of it. */
  async #ofMissing(names: readonly string[]): Promise<Explanation> {
    const { leftOut, rootTrash } = this.#deps
    const [top = '', ...inside] = names
    const isNamed = ({ name }: { readonly name: string }): boolean => encodeName(name) === top
    const isInRoot = inside.length === 0
    const changes = this.#items().filter((item) => item.kind === 'delete' && isNamed(item))
    const place = { top, inside: inside.join('/') }
    const within = isInRoot ? [] : await trashedWith(this.#deps, rootTrash.items(), place)
    const missing: Explanation = {
      ...NOTHING_MORE,
      path: names.join('/'),
      what: 'missing',
      ...(isInRoot ? { changes, waitsFor: this.#waitsFor(changes) } : { folder: top }),
      leftOut: leftOut
        .list()
        .filter(({ folder, path }) => encodeName(folder) === top && path === place.inside),
      inTrash: (isInRoot ? rootTrash.items().filter(isNamed) : within).map(toTrashed),
    }
    const isPinned = isInRoot && this.#deps.pins.of(top) !== undefined
    const known = missing.changes.length + missing.leftOut.length + missing.inTrash.length
    if (known > 0 || isPinned) return missing
    throw new DriveError('not-found', `There is nothing called ${names.join('/')} in the drive.`, {
      hint: 'What another machine stores shows once the listing is asked for anew; a name is to be given as ls shows it.',
    })
  }

  #ofMadeUp(names: readonly string[]): Explanation {
    const [top, kind, name] = names
    const madeUp = { ...NOTHING_MORE, path: names.join('/'), what: 'made-up' } as const
    if (top === VOLUME_INFO) return { ...madeUp, madeUp: 'volume' }
    const shown =
      names.length > 3
        ? undefined
        : top === '.bags'
          ? this.#ofBag(kind, name)
          : this.#ofControl(kind, name)
    if (shown !== undefined) return { ...madeUp, ...shown }
    throw new DriveError('not-found', `The drive has no ${madeUp.path}.`)
  }

  #ofBag(id: string | undefined, more: string | undefined): Partial<Explanation> | undefined {
    if (id === undefined) return { madeUp: 'bags' }
    if (more !== undefined || !BAG_ID.test(id)) return undefined
    const bagId = toBagId(id)
    const shown = this.#deps.entries.tree().shownAs(bagId)
    const name: NameReasons = { service: id, why: [], others: shown === undefined ? [] : [shown] }
    return { ...this.#bytesOfBag(bagId), madeUp: 'bag', bagId, name }
  }

  #ofControl(kind: string | undefined, name: string | undefined): Partial<Explanation> | undefined {
    if (kind === 'outbox' && name !== undefined) return this.#ofChange(name)
    if (kind === 'trash') return name === undefined ? { madeUp: 'trash' } : this.#ofTrashed(name)
    const isKnown = ['status', 'status.json', 'outbox', undefined].includes(kind)
    return isKnown && name === undefined ? { madeUp: 'control' } : undefined
  }

  #ofChange(name: string): Partial<Explanation> | undefined {
    const { outbox } = this.#deps
    const put = nameContents(outbox.intents()).get(name)
    if (put === undefined) return undefined
    const changes = this.#items().filter(({ id }) => id === put.id)
    const state = this.#deps.extended.stateOfContent(false, put.id)
    const waitsFor = this.#waitsFor(changes)
    return { madeUp: 'change', state, changes, waitsFor, places: ['outbox'] }
  }

  #ofTrashed(name: string): Partial<Explanation> | undefined {
    const item = nameItems(this.#deps.trash.items()).get(name)
    if (item === undefined) return undefined
    const { length: bytes } = item
    return { madeUp: 'trash', bytes, places: ['trash'], inTrash: [toTrashed(item)] }
  }

  #items(): readonly OutboxItem[] {
    return listItems(this.#deps.outbox.intents(), this.#deps.uploader)
  }
}

function whatIs(item: Item): Explanation['what'] {
  if (item.type === 'symlink') return 'link'
  return isSpecial(item) ? 'special' : item.type
}

function toTold({ name, other, atMs }: Explanation['conflicts'][number]) {
  return { name, other, atMs }
}

function toTrashed({ bagId, name, why, isFolder, length, deletedAtMs }: TrashItem) {
  return { bagId, name, why, isFolder, length, deletedAtMs }
}

/** A field that is left out where there is no value. */
function optionally<Name extends string, Value>(
  name: Name,
  value: Value | undefined,
): { readonly [Each in Name]?: Value } {
  return value === undefined ? {} : ({ [name]: value } as { [Each in Name]: Value })
}
