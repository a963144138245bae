import type { Clock } from '../../domain/clock.ts'
import { DriveError, goneFile, noSuchFile } from '../../domain/errors.ts'
import { checkTypedName } from '../../domain/names.ts'
import { staysInside } from '../../zip/links.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Owner, SpecialNode } from '../../domain/attributes.ts'
import type { MadeAttributes } from '../tree/home.ts'
import type { FolderFiles } from './folder-files.ts'
import type { ChangeLog } from './change-log.ts'
import type { FolderRoom } from './folder-room.ts'
import type { Folder } from './folder.ts'
import {
  Children,
  closedContent,
  isWithin,
  itemsOf,
  isSpecial,
  localContentOf,
  pathOfItem,
  touch,
  type DirectoryItem,
  type FileItem,
  type Item,
  type SpecialItem,
} from './items.ts'
import type { JournalItem } from './journal.ts'
import type { LocalContents } from './local-contents.ts'
import { exchanging, freeName } from './exchanging.ts'
import { lookForLinks, refuseLeavingLinks, type NewPlace } from './leaving-links.ts'
import { Replay } from './replay.ts'

interface FolderNamesDeps {
  readonly folder: Folder
  readonly changes: ChangeLog
  readonly room: FolderRoom
  readonly files: FolderFiles
  readonly contents: LocalContents
  readonly clock: Clock
  readonly log: Logger
  readonly inTurn: <Result>(task: () => Promise<Result>) => Promise<Result>
}

/** What is done to the children of a directory. */
type Change<Result> = (children: Children, nowMs: number) => Promise<Result>

/** Changes of the tree of a folder: each is in the journal when it resolves. */
export class FolderNames {
  readonly #deps: FolderNamesDeps

  constructor(deps: FolderNamesDeps) {
    this.#deps = deps
  }

  /** A new empty file, already open for its maker. */
  async createFile(parent: DirectoryItem, name: string, made: MadeAttributes): Promise<FileItem> {
    return this.#change(parent, async (children, now) => {
      const existing = children.get(name)
      if (existing?.type === 'file') return existing
      this.#refuseExisting(existing, name)
      const base = { id: this.#deps.folder.nextNode(), parent, name, ...made, mtimeMs: now }
      const content = this.#deps.contents.make(made)
      const item: FileItem = { ...base, type: 'file', content, handles: 0 }
      this.#deps.folder.add(parent, children, item)
      return Promise.resolve(item)
    })
  }

  async makeDirectory(parent: DirectoryItem, name: string, made: MadeAttributes): Promise<void> {
    await this.#change(parent, async (children, now) => {
      this.#refuseExisting(children.get(name), name)
      const base = { id: this.#deps.folder.nextNode(), parent, name, ...made, mtimeMs: now }
      const item: Item = {
        ...base,
        type: 'directory',
        children: new Children(),
        archived: undefined,
      }
      // Written down first: what the disk has no room for must not show.
      const path = this.#pathIn(parent, name)
      this.#deps.changes.append({ op: 'directory', path, atMs: now, ...made })
      this.#deps.folder.add(parent, children, item)
      return Promise.resolve()
    })
  }

  async makeSymlink(
    parent: DirectoryItem,
    name: string,
    target: string,
    owner: Owner,
  ): Promise<void> {
    const steps = {
      up: (directory: DirectoryItem) => directory.parent,
      down: (directory: DirectoryItem, step: string) => {
        const child = directory.children?.get(step)
        return child?.type === 'directory' ? child : undefined
      },
    }
    await this.#change(parent, async (children, now) => {
      this.#refuseExisting(children.get(name), name)
      if (!staysInside(target, parent, steps)) {
        throw new DriveError('not-permitted', 'A link must be relative and stay inside its folder.')
      }
      const made = { mode: 0o777, ...owner }
      const base = { id: this.#deps.folder.nextNode(), parent, name, ...made, mtimeMs: now }
      const item: Item = { ...base, type: 'symlink', target }
      const path = this.#pathIn(parent, name)
      this.#deps.changes.append({ op: 'symlink', path, atMs: now, ...made, target })
      this.#deps.folder.add(parent, children, item)
      return Promise.resolve()
    })
  }

  /** A node of this machine: no change of what is stored. */
  async makeNode(
    parent: DirectoryItem,
    name: string,
    made: MadeAttributes,
    { kind, device }: SpecialNode,
  ): Promise<void> {
    const { folder, clock, inTurn } = this.#deps
    await inTurn(async () => {
      const children = await folder.children(parent)
      this.#pathOf(parent)
      this.#refuseExisting(children.get(name), name)
      const base = { id: folder.nextNode(), parent, name, ...made, mtimeMs: clock.now() }
      folder.add(parent, children, { ...base, type: kind, device })
      touch(parent, base.mtimeMs)
      folder.keepLocalParts()
    })
  }

  /** Removes a file or link; an open file lives on without a name. */
  async unlink(parent: DirectoryItem, name: string): Promise<Item> {
    const found = (await this.#deps.folder.children(parent)).get(name)
    if (found !== undefined && isSpecial(found)) return this.#unlinkNode(parent, found)
    return this.#removing(parent, async (children, now) => {
      const item = this.#existing(children, name)
      if (item.type === 'directory') throw new DriveError('is-a-directory', 'This is a directory.')
      await this.#remove(children, item, now)
      return item
    })
  }

  async #unlinkNode(parent: DirectoryItem, item: SpecialItem): Promise<Item> {
    return this.#deps.inTurn(async () => {
      const children = await this.#deps.folder.children(parent)
      if (children.get(item.name) !== item) throw new DriveError('busy', 'It has another name now.')
      this.#forget(children, item)
      touch(parent, this.#deps.clock.now())
      return item
    })
  }

  async removeDirectory(parent: DirectoryItem, name: string): Promise<void> {
    await this.#removing(parent, async (children, now) => {
      const item = this.#existing(children, name)
      if (item.type !== 'directory') throw new DriveError('not-a-directory', 'This is a file.')
      await this.#refuseFull(item)
      await this.#remove(children, item, now)
    })
  }

  async rename(
    parent: DirectoryItem,
    name: string,
    newParent: DirectoryItem,
    newName: string,
  ): Promise<void> {
    await this.#persistNew((await this.#deps.folder.children(parent)).get(name), newParent, newName)
    await this.#change(parent, async (children, now) => {
      const item = this.#existing(children, name)
      const targets = await this.#deps.folder.children(newParent)
      const target = targets.get(newName)
      if (target === item) return
      checkTypedName(newName)
      if (item.type === 'directory' && isWithin(newParent, item)) {
        throw new DriveError('invalid', 'A directory cannot be moved into itself.')
      }
      await this.#checkReplacement(item.type, target)
      if (newParent !== parent) {
        await lookForLinks(this.#deps.folder, item)
        refuseLeavingLinks(item, { parent: newParent, name: newName })
      }
      const from = this.#pathOf(item)
      const to = this.#pathIn(newParent, newName)
      // Written down first: a kill in between must leave one of the two. Of a file that the journal does not have, the
      // start after a kill knows nothing: then what has the name stays.
      if (!isSpecial(item)) this.#deps.changes.append({ op: 'rename', path: from, atMs: now, to })
      else if (target !== undefined) await this.#remove(targets, target, now)
      if (target !== undefined && !isSpecial(item)) this.#replace(targets, target, item)
      children.delete(name)
      item.name = newName
      item.ctimeMs = now
      this.#deps.folder.add(newParent, targets, item)
      touch(newParent, now)
      this.#deps.folder.keepLocalParts()
    })
  }

  /** Gives each of two names what the other has; a kill leaves all of that or nothing, see `exchanging`. */
  async exchange(
    parent: DirectoryItem,
    name: string,
    newParent: DirectoryItem,
    newName: string,
  ): Promise<void> {
    const { folder, changes, files } = this.#deps
    for (const [at, each] of [
      [parent, name],
      [newParent, newName],
    ] as const) {
      const item = (await folder.children(at)).get(each)
      if (item?.type === 'file') await files.persist(item, { closes: false })
    }
    await this.#change(parent, async (children, now) => {
      const targets = await folder.children(newParent)
      const item = this.#existing(children, name)
      const other = this.#existing(targets, newName)
      if (item === other) return
      await this.#refuseUnexchangeable(item, { parent: newParent, name: newName })
      await this.#refuseUnexchangeable(other, { parent, name })
      const between = this.#pathIn(parent, freeName(children))
      changes.appendAll(exchanging(this.#pathOf(item), this.#pathOf(other), between, now))
      children.delete(name)
      targets.delete(newName)
      for (const [moved, to] of [
        [item, newName],
        [other, name],
      ] as const) {
        moved.name = to
        moved.ctimeMs = now
      }
      folder.add(newParent, targets, item)
      folder.add(parent, children, other)
      touch(newParent, now)
      folder.keepLocalParts()
    })
  }

  async #refuseUnexchangeable(item: Item, place: NewPlace): Promise<void> {
    if (isSpecial(item)) {
      throw new DriveError('invalid', 'A node of this machine is not exchanged.')
    }
    if (item.type === 'directory' && isWithin(place.parent, item)) {
      throw new DriveError('invalid', 'A directory cannot be moved into itself.')
    }
    if (place.parent === item.parent) return
    await lookForLinks(this.#deps.folder, item)
    refuseLeavingLinks(item, place)
  }

  /** Throws what rename(2) says of a name that cannot be taken by something from elsewhere. */
  async checkPlace(parent: DirectoryItem, name: string, type: Item['type']): Promise<void> {
    this.#pathOf(parent)
    checkTypedName(name)
    await this.#checkReplacement(type, (await this.#deps.folder.children(parent)).get(name))
  }

  /**
   * Puts what came from elsewhere under a name, in the place of what has it; its staged files are
   * there. On disk when it resolves. The caller has the turn, and has checked the place.
   */
  async place(parent: DirectoryItem, name: string, items: readonly JournalItem[]): Promise<void> {
    const { changes, folder, contents, clock, log } = this.#deps
    const children = await folder.children(parent)
    const path = this.#pathIn(parent, name)
    const operation = { op: 'tree', path, atMs: clock.now(), entries: items } as const
    changes.append(operation)
    const target = children.get(name)
    if (target !== undefined) this.#forget(children, target)
    const filesDir = changes.files.dir
    await new Replay({ folder, contents, filesDir }, log).run([operation])
    const placed = children.get(name)
    if (placed !== undefined) contents.count(placed)
    folder.keepLocalParts()
    await changes.sync()
  }

  /** Takes something away with all that is in it; open files live on. The caller has the turn. */
  takeOut(item: Item): void {
    const { parent } = item
    if (parent?.children === undefined) throw goneFile()
    const now = this.#deps.clock.now()
    this.#deps.changes.append({ op: 'remove', path: this.#pathOf(item), atMs: now })
    touch(parent, now)
    const inside = [...itemsOf(item)]
    parent.children.delete(item.name)
    item.parent = undefined
    for (const each of inside) {
      if (each.type === 'file') this.#deps.files.discard(each)
      else this.#deps.folder.forget(each)
    }
  }

  /** A new file that is renamed is kept as it is, though it was never closed, unless that would take the place of what was. */
  async #persistNew(item: Item | undefined, parent: DirectoryItem, name: string): Promise<void> {
    if (item?.type !== 'file' || closedContent(item) !== undefined) return
    const target = (await this.#deps.folder.children(parent)).get(name)
    if (target?.type === 'file' && closedContent(target) !== undefined) return
    await this.#deps.files.persist(item, { closes: false })
  }

  async #change<Result>(parent: DirectoryItem, task: Change<Result>): Promise<Result> {
    return this.#deps.inTurn(async () => {
      await this.#deps.room.check()
      return this.#begun(parent, task)
    })
  }

  /** A change that needs no room: what is removed may be what the folder is too large by. */
  async #removing<Result>(parent: DirectoryItem, task: Change<Result>): Promise<Result> {
    return this.#deps.inTurn(() => this.#begun(parent, task))
  }

  async #begun<Result>(parent: DirectoryItem, task: Change<Result>): Promise<Result> {
    await this.#deps.changes.begin()
    const now = this.#deps.clock.now()
    const result = await task(await this.#deps.folder.children(parent), now)
    touch(parent, now)
    return result
  }

  async #remove(children: Children, item: Item, now: number): Promise<void> {
    if (!isSpecial(item)) {
      const content = localContentOf(item)
      await this.#deps.changes.beforeRemoval(
        content?.before === undefined ? content?.group : undefined,
      )
      this.#deps.changes.append({ op: 'remove', path: this.#pathOf(item), atMs: now })
    }
    this.#forget(children, item)
  }

  #forget(children: Children, item: Item): void {
    children.delete(item.name)
    item.parent = undefined
    if (item.type === 'file') this.#deps.files.discard(item)
    else this.#deps.folder.forget(item)
    if (isSpecial(item) || item.extended !== undefined) this.#deps.folder.keepLocalParts()
  }

  /** The name keeps what it has until the file that gets it is closed. */
  #replace(children: Children, target: Item, item: Item): void {
    const { contents, folder } = this.#deps
    const isHandedOn =
      item.type === 'file' && target.type === 'file' && contents.handOn(target, item)
    if (!isHandedOn) {
      this.#forget(children, target)
      return
    }
    target.parent = undefined
    folder.forget(target)
  }

  async #checkReplacement(type: Item['type'], target: Item | undefined): Promise<void> {
    if (target?.type === 'directory') {
      if (type !== 'directory') throw new DriveError('is-a-directory', 'There is a directory.')
      await this.#refuseFull(target)
    } else if (target !== undefined && type === 'directory') {
      throw new DriveError('not-a-directory', 'There is a file.')
    }
  }

  async #refuseFull(directory: DirectoryItem): Promise<void> {
    const children = await this.#deps.folder.children(directory)
    if (children.size > 0) throw new DriveError('not-empty', 'The directory is not empty.')
  }

  #existing(children: Children, name: string): Item {
    const item = children.get(name)
    if (item === undefined) throw noSuchFile()
    return item
  }

  #refuseExisting(existing: Item | undefined, name: string): void {
    if (existing !== undefined) throw new DriveError('exists', 'There is something of this name.')
    checkTypedName(name)
  }

  #pathIn(parent: DirectoryItem, name: string): string {
    const path = this.#pathOf(parent)
    return path === '' ? name : `${path}/${name}`
  }

  #pathOf(item: Item): string {
    const path = pathOfItem(item, this.#deps.folder.top)
    if (path === undefined) throw goneFile()
    return path
  }
}
