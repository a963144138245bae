import { rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Clock } from '../../domain/clock.ts'
import { changesBetween, keptOf, type KeptAttributes } from '../../domain/attributes.ts'
import { DriveError, fromFileSystem } from '../../domain/errors.ts'
import type { IntentId } from '../../domain/ids.ts'
import type { MovedTo } from '../../intents/intent.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import { sha256OfFile } from '../../disk/file-hash.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import type { StepListener } from '../../outbox/steps.ts'
import { syncDirectory } from '../../disk/sync.ts'
import type { Committer } from '../root/commit.ts'
import type { Entries } from '../root/entries.ts'
import { Journal, type JournalItem } from '../folders/journal.ts'
import { isSpecial, withReadTime } from '../folders/items.ts'
import type { OpenFolders } from '../folders/open-folders.ts'
import type { NameChanges } from '../root/name-changes.ts'
import type { NewContent, Puts } from '../root/puts.ts'
import { refuseTrash } from '../root/save-steps.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { RootRoom } from '../root/room-beside.ts'
import type { RootAttributes } from '../root/root-attributes.ts'
import type { RootNodes } from '../root/root-nodes.ts'
import { secureChange } from '../root/secure.ts'
import type { DriveSettings } from '../settings.ts'
import type { ItemSource } from './folder-source.ts'
import type { LeavingPlace } from './leaving-place.ts'

export interface ToRootDeps {
  readonly names: KeyedLock<'names'>
  readonly entries: Entries
  readonly changes: NameChanges
  readonly openFolders: OpenFolders
  readonly rootNodes: RootNodes
  readonly attributes: RootAttributes
  readonly committer: Committer
  readonly uploader: Uploader
  readonly log: Logger
  readonly rootRoom: RootRoom
  readonly outbox: Outbox
  readonly puts: Puts
  readonly clock: Clock
  readonly settings: Pick<DriveSettings, 'description'>
  readonly onStep?: StepListener
}

/** What leaves a folder, and the place that it leaves. */
interface FromFolder {
  readonly source: ItemSource
  readonly left: LeavingPlace
}

interface RootPlace {
  readonly id: IntentId
  /** Where the content of a file goes. */
  readonly path: string
}

/** Renames out of a folder into the root: a file becomes a bag of its own, a directory a folder. */
export class MovesToRoot {
  readonly #deps: ToRootDeps

  constructor(deps: ToRootDeps) {
    this.#deps = deps
  }

  /** `draft` becomes the intent; its directory `files` is there. */
  async move(from: FromFolder, newName: string, draft: RootPlace): Promise<void> {
    const { source } = from
    refuseTrash(newName)
    if (source.type === 'symlink') {
      throw new DriveError('not-permitted', 'Links are kept inside folders only.')
    }
    if (isSpecial(source.item)) {
      throw new DriveError('cross-device', 'A node stays in its folder.')
    }
    await this.#deps.entries.fresh()
    await this.#deps.rootNodes.learnForChange(newName)
    const isFolder = source.type === 'directory'
    await this.#checkTarget(newName, isFolder)
    await this.#deps.rootRoom.check(source.folder.folder.node, await source.unheldBytes())
    await source.copyTo(join(dirname(draft.path), 'files'))
    if (isFolder) await this.#moveDirectory(from, newName, draft)
    else await this.#moveFile(from, newName, draft)
  }

  async #checkTarget(newName: string, isFolder: boolean): Promise<FileNode | undefined> {
    const target = this.#deps.entries.resolve(newName)
    await this.#deps.rootNodes.checkReplacement(target, isFolder)
    return target
  }

  /** As all changes of folders this is done when it is on disk; the upload follows. */
  async #moveDirectory(
    { source, left }: FromFolder,
    newName: string,
    draft: RootPlace,
  ): Promise<void> {
    const { names, openFolders, entries, onStep } = this.#deps
    const place = async (): Promise<void> => {
      left.hold()
      const tree = await source.finish()
      source.check(undefined)
      const target = await this.#checkTarget(newName, true)
      // What it is made of here is no change of it.
      const ctimeMs = this.#deps.clock.now()
      const operations = await writeJournal(dirname(draft.path), tree, ctimeMs)
      await this.#put(source, newName, draft.id, {
        ctimeMs,
        content: { from: 'folder' },
        isFolder: true,
        changes: { start: 0 },
      })
      if (target !== undefined) openFolders.detach(target)
      onStep?.('move.placed')
      await this.#remove(source, { id: draft.id, operations })
      onStep?.('move.removed')
    }
    await names.run('names', () => openFolders.inTurns([source.folder], place))
    const node = entries.resolve(newName)
    if (node === undefined) return
    const { folder, changes } = await openFolders.folderOf(node)
    folder.keepLocalParts()
    changes.touch()
  }

  async #remove(source: ItemSource, placed: MovedTo): Promise<void> {
    try {
      await source.remove(placed)
    } catch (error) {
      await this.#deps.outbox.remove(placed.id)
      throw error
    }
  }

  /**
   * In mode through the service has the file at its new place before it leaves the old one. Until then no program changes
   * its content: a move that is refused later would have replaced what had the new name.
   */
  async #moveFile({ source, left }: FromFolder, newName: string, draft: RootPlace): Promise<void> {
    const { names, openFolders, log, onStep } = this.#deps
    left.holdContent()
    const [file] = await openFolders.inTurns([source.folder], () => source.finish())
    if (file?.type !== 'file') throw new DriveError('stale', 'This is no file any more.')
    const copy = join(dirname(draft.path), 'files', file.file)
    try {
      await rename(copy, draft.path)
    } catch (error) {
      throw fromFileSystem(error, 'A file cannot be moved')
    }
    const { length } = file
    const sha256 = await sha256OfFile(draft.path)
    const { put, placed, node } = await names.run('names', async () => {
      await this.#checkTarget(newName, false)
      const placed = keptNow(source)
      const content = { from: 'staged', length, sha256 } as const
      const what = { ctimeMs: this.#deps.clock.now(), content }
      const put = await this.#put(source, newName, draft.id, what)
      return { put, placed, node: this.#deps.entries.resolve(newName) }
    })
    onStep?.('move.placed')
    await secureChange(this.#deps, put, { hasNewContent: false })
    // The folder may have been stored meanwhile: then the same content is in its zip.
    const isSame = async (name: string): Promise<boolean> =>
      name === file.file || (await sha256OfFile(join(dirname(copy), name))) === sha256
    const remove = async (): Promise<void> => {
      if (source.isGone) return
      const [now] = await source.now()
      if (now?.type !== 'file' || !(await isSame(now.file))) {
        log.warn({ name: newName }, 'What moved was changed elsewhere since: that stays.')
        return
      }
      await source.folder.changes.begin()
      await source.remove({ id: put })
    }
    await left.holdRest()
    await openFolders.inTurns([source.folder], remove)
    onStep?.('move.removed')
    await this.#followAttributes(node, placed, keptNow(source))
  }

  /** A chmod that came while the file was being stored counts at the new place. */
  async #followAttributes(
    node: FileNode | undefined,
    placed: KeptAttributes,
    now: KeptAttributes,
  ): Promise<void> {
    const changes = changesBetween(placed, now)
    if (changes === undefined || node?.name === undefined) return
    await this.#deps.attributes.change(node, changes)
  }

  async #put(
    source: ItemSource,
    newName: string,
    id: IntentId,
    what: Pick<NewContent, 'ctimeMs' | 'content' | 'isFolder' | 'changes'>,
  ): Promise<IntentId> {
    const { description } = this.#deps.settings
    const put = await this.#deps.changes.putNew(
      newName,
      { description, ...keptNow(source), ...what },
      id,
    )
    return put.id
  }
}

function keptNow({ item }: ItemSource): KeptAttributes {
  return keptOf(withReadTime(item, item))
}

/** Writes the changes that make a new folder what a directory was; answers how many operations they are. */
async function writeJournal(
  dir: string,
  tree: readonly JournalItem[],
  atMs: number,
): Promise<number> {
  await syncDirectory(join(dir, 'files'))
  const trees = byChild(tree)
  const journal = Journal.open(join(dir, 'journal.jsonl'), 0)
  try {
    for (const [path, entries] of trees) journal.append({ op: 'tree', path, atMs, entries })
    await journal.sync()
  } finally {
    journal.close()
  }
  await syncDirectory(dir)
  return trees.size
}

/** A tree as those of what is in its top. */
function byChild(tree: readonly JournalItem[]): ReadonlyMap<string, readonly JournalItem[]> {
  const trees = new Map<string, JournalItem[]>()
  for (const item of tree) {
    if (item.path === '') continue
    const [child = '', ...below] = item.path.split('/')
    const items = trees.get(child) ?? []
    trees.set(child, items)
    items.push({ ...item, path: below.join('/') })
  }
  return trees
}
