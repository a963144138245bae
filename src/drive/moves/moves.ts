import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { makeDirectoryFor } from '../../disk/make-directory.ts'
import { DriveError, goneFile, noSuchFile } from '../../domain/errors.ts'
import { isNode } from '../root/name-changes.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { StepListener } from '../../outbox/steps.ts'
import { FolderOpenFile } from '../folders/folder-open-file.ts'
import type { FolderHome } from '../folders/folder-home.ts'
import { pathOfItem, type DirectoryItem, type Item } from '../folders/items.ts'
import type { JournalItem } from '../folders/journal.ts'
import type { OpenFolder } from '../folders/open-folder.ts'
import type { Place } from '../folders/open-folders.ts'
import type { Handles } from '../tree/handles.ts'
import type { Home } from '../tree/home.ts'
import { ROOT, type DriveNode, type FileNode, type Nodes } from '../tree/nodes.ts'
import type { RootNodes } from '../root/root-nodes.ts'
import { RootOpenFile } from '../root/root-open-file.ts'
import { ItemSource } from './folder-source.ts'
import { LeftBehindFile } from './left-behind.ts'
import { LeavingPlace } from './leaving-place.ts'
import type { MoveGate } from './move-gate.ts'
import { RootFileSource, RootFolderSource, type RootSourceDeps } from './root-sources.ts'
import type { MoveSource, OpenPath } from './source.ts'
import { MovesToRoot, type ToRootDeps } from './to-root.ts'

interface MovesDeps extends RootSourceDeps, ToRootDeps {
  readonly names: KeyedLock<'names'>
  readonly folders: FolderHome
  readonly root: Home
  readonly rootNodes: RootNodes
  readonly outbox: Outbox
  readonly nodes: Nodes
  readonly handles: Handles
  readonly gate: MoveGate
  readonly log: Logger
  readonly onStep?: StepListener
}

/**
 * Renames that leave a folder, or enter one. A folder is a bag of its own, so what moves is copied on
 * this machine. The new place is on disk before the old one goes: a kill in between may leave both,
 * and never neither.
 */
export class Moves {
  readonly #deps: MovesDeps
  readonly #toRoot: MovesToRoot

  constructor(deps: MovesDeps) {
    this.#deps = deps
    this.#toRoot = new MovesToRoot(deps)
  }

  /** True when a rename leads from one folder to another, or to or from the root. */
  isBetween(parent: NodeId, newParent: NodeId): boolean {
    const [from, to] = [this.#folderOf(parent), this.#folderOf(newParent)]
    return from !== undefined && to !== undefined && from !== to
  }

  /** The node of a folder, or the root; undefined for what is neither. */
  #folderOf(id: NodeId): NodeId | undefined {
    if (id === ROOT) return ROOT
    const node = this.#deps.nodes.get(id)
    return node?.home === 'folders' ? node.top?.id : undefined
  }

  async rename(parent: NodeId, name: string, newParent: NodeId, newName: string): Promise<void> {
    const { outbox, handles } = this.#deps
    const source = await this.#sourceOf(parent, name)
    const ids = source.handles.map(({ id }) => id)
    const left = new LeavingPlace(this.#deps, source)
    const move = async (): Promise<void> => {
      const draft = outbox.createDraft()
      const copies = join(outbox.directory(draft.id), 'files')
      try {
        makeDirectoryFor('What is to be moved cannot be copied', copies)
        if (newParent !== ROOT) await this.#intoFolder({ source, left }, newParent, newName, copies)
        else if (source instanceof ItemSource) {
          await this.#toRoot.move({ source, left }, newName, draft)
        }
      } finally {
        source.release()
        await outbox.discardDraft(draft.id)
      }
      await this.#moveHandles(left.handles, newParent, newName)
    }
    try {
      await handles.during(ids, move)
    } finally {
      left.letGo()
    }
  }

  async #sourceOf(parent: NodeId, name: string): Promise<MoveSource> {
    const { openFolders, rootNodes, nodes } = this.#deps
    if (parent !== ROOT) {
      const { open, item } = await openFolders.directory(parent)
      const child = (await open.folder.children(item)).get(name)
      if (child === undefined) throw noSuchFile()
      const path = join(pathOf(nodes.get(parent)), name)
      return new ItemSource(path, { open, item: child }, () => this.#openIn(child))
    }
    await rootNodes.find(name)
    await rootNodes.learnForChange(name)
    const node: FileNode = await rootNodes.find(name)
    if (isNode(node)) throw new DriveError('cross-device', 'A node stays where it is.')
    if (openFolders.topNode(node.id) === undefined)
      return new RootFileSource(this.#deps, pathOf(node), node, () => this.#openOf(node))
    const open = await openFolders.folderOf(node)
    const { top } = open.folder
    return new RootFolderSource(this.#deps, pathOf(node), { open, item: top }, () =>
      this.#openIn(top),
    )
  }

  /** Open files below something in a folder, or that one itself. */
  #openIn(top: Item): readonly OpenPath[] {
    return [...this.#deps.handles.all()].flatMap(([id, file]) => {
      const path = file instanceof FolderOpenFile ? pathOfItem(file.item, top) : undefined
      return path === undefined ? [] : [{ id, path, mode: file }]
    })
  }

  #openOf(node: FileNode): readonly OpenPath[] {
    return [...this.#deps.handles.all()].flatMap(([id, file]) =>
      file instanceof RootOpenFile && file.node === node ? [{ id, path: '', mode: file }] : [],
    )
  }

  async #intoFolder(
    { source, left }: { readonly source: MoveSource; readonly left: LeavingPlace },
    newParent: NodeId,
    newName: string,
    copies: string,
  ): Promise<void> {
    const to = await this.#deps.openFolders.directory(newParent)
    if (source.folder === to.open) {
      throw new DriveError('invalid', 'A folder cannot be moved into itself.')
    }
    const check = async (): Promise<void> => {
      await to.open.names.checkPlace(to.item, newName, source.type)
      source.check({ parent: to.item, name: newName })
    }
    await check()
    await to.open.room.check(await source.unheldBytes())
    await source.copyTo(copies)
    await this.#locked(source, to.open, async () => {
      left.hold()
      await this.#refuseReloaded(newParent, to)
      const items = await source.finish()
      await check()
      await to.open.changes.begin()
      await this.#place(await takeFiles(items, copies, to.open), to, newName, source)
    })
  }

  async #locked(source: MoveSource, target: OpenFolder, task: () => Promise<void>): Promise<void> {
    const { names, openFolders } = this.#deps
    const opens = source.folder === undefined ? [target] : [source.folder, target]
    const inTurns = (): Promise<void> => openFolders.inTurns(opens, task)
    await (source.isInRoot ? names.run('names', inTurns) : inTurns())
  }

  /** Another change may have replaced the folder while the content was copied. */
  async #refuseReloaded(newParent: NodeId, to: Place): Promise<void> {
    const now = await this.#deps.openFolders.directory(newParent)
    if (now.open !== to.open) throw new DriveError('busy', 'The folder has changed meanwhile.')
  }

  async #place(
    items: readonly JournalItem[],
    to: Place<DirectoryItem>,
    newName: string,
    source: MoveSource,
  ): Promise<void> {
    const { onStep } = this.#deps
    const isReplacing = (await to.open.folder.children(to.item)).has(newName)
    try {
      await to.open.names.place(to.item, newName, items)
      onStep?.('move.placed')
      await source.remove(to.open.changes.place)
      onStep?.('move.removed')
    } catch (error) {
      // What it took the place of cannot come back: then it is at both places.
      const placed = to.item.children?.get(newName)
      if (!isReplacing && placed !== undefined) to.open.names.takeOut(placed)
      throw error
    }
  }

  /** Programs go on with the files that they have open, at the new place. */
  async #moveHandles(
    handles: readonly OpenPath[],
    newParent: NodeId,
    newName: string,
  ): Promise<void> {
    const { folders, root, handles: open, nodes, log } = this.#deps
    const at = (id: NodeId) => (nodes.get(id)?.home === 'folders' ? folders : root)
    for (const { id, path, mode } of handles) {
      if (!open.isOpen(id)) continue
      try {
        let { node } = await at(newParent).lookup(newParent, newName)
        for (const step of path === '' ? [] : path.split('/')) {
          node = (await at(node).lookup(node, step)).node
        }
        await open.moveTo(
          id,
          await at(node).open(node, {
            writable: mode.writable,
            append: mode.append === true,
            truncate: false,
          }),
        )
      } catch (error) {
        if (!open.isOpen(id)) {
          log.debug({ path, error: String(error) }, 'An open file was closed while it moved.')
          continue
        }
        log.error({ path, error: String(error) }, 'An open file stays at its old place.')
        await open.moveTo(id, new LeftBehindFile(this.#deps.clock, open.file(id), error))
      }
    }
  }
}

function pathOf(node: DriveNode | undefined): string {
  if (node?.path === undefined) throw goneFile()
  return node.path
}

/** Gives copies to the staging directory of a folder. Those of a move that fails belong to no file there. */
async function takeFiles(
  items: readonly JournalItem[],
  copies: string,
  open: OpenFolder,
): Promise<readonly JournalItem[]> {
  const taken: JournalItem[] = []
  for (const item of items) {
    if (item.type !== 'file') taken.push(item)
    else {
      const { file, path } = open.changes.files.newFile()
      await rename(join(copies, item.file), path)
      taken.push({ ...item, file })
    }
  }
  return taken
}
