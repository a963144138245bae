import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { syncFile } from '../../disk/sync.ts'
import { keptOf } from '../../domain/attributes.ts'
import { DriveError, fromFileSystem, goneFile, isDriveError } from '../../domain/errors.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import type { BagFacts } from '../../domain/record.ts'
import type { MovedTo } from '../../intents/intent.ts'
import { holdsRoom } from '../../outbox/failure.ts'
import type { Uploader } from '../../outbox/uploader.ts'
import { bagIdOf } from '../root/bag-attributes.ts'
import type { Contents } from '../root/contents.ts'
import type { Entries } from '../root/entries.ts'
import type { JournalItem } from '../folders/journal.ts'
import type { OpenFolders, Place } from '../folders/open-folders.ts'
import type { Removals } from '../root/removals.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { RootAttributes } from '../root/root-attributes.ts'
import { ItemSource } from './folder-source.ts'
import type { NewPlace } from '../folders/leaving-links.ts'
import type { MoveSource, OpenPath } from './source.ts'

export interface RootSourceDeps {
  readonly entries: Entries
  readonly contents: Contents
  readonly attributes: RootAttributes
  readonly removals: Removals
  readonly openFolders: OpenFolders
  readonly uploader: Uploader
  readonly facts: { get(bagId: BagId): BagFacts | undefined }
}

const ONLY_FILE = '1'

/** A file of the root. */
export class RootFileSource implements MoveSource {
  readonly type = 'file'
  readonly folder = undefined
  readonly isInRoot = true
  readonly path: string
  readonly handles: readonly OpenPath[]
  readonly #deps: RootSourceDeps
  readonly #node: FileNode
  readonly openNow: () => readonly OpenPath[]
  #copied: { readonly version: string; readonly length: number } | undefined

  constructor(
    deps: RootSourceDeps,
    name: string,
    node: FileNode,
    openNow: () => readonly OpenPath[],
  ) {
    this.#deps = deps
    this.#node = node
    this.path = name
    this.openNow = openNow
    this.handles = openNow()
  }

  check(): void {
    this.#deps.removals.refuseShared(this.#node)
  }

  unheldBytes(): Promise<number> {
    const { hasUnpromised, entry } = this.#node
    const isHeld = hasUnpromised || (entry?.kind === 'pending' && holdsRoom(entry.intent))
    return Promise.resolve(isHeld ? 0 : this.#deps.attributes.of(this.#node).size)
  }

  async copyTo(dir: string): Promise<void> {
    const { staged } = this.#node
    staged?.refuseHalf()
    const version = this.#version()
    const path = join(dir, ONLY_FILE)
    await this.#deps.contents.copyTo(this.#node, path)
    this.#copied = { version, length: await syncedLength(path) }
  }

  /** Tells whether the content is the same as before; that it became a bag meanwhile is no change. */
  #version(): string {
    const { staged, entry } = this.#node
    if (staged?.hasUnpromised === true) return `${staged.id} ${staged.size} ${staged.lastWriteMs}`
    if (entry?.kind === 'bag') return this.#versionOf(entry.record.bagId)
    const content = entry?.intent.content
    if (content?.from === 'bag') return this.#versionOf(content.bagId)
    return content?.from === 'staged' ? content.sha256 : ''
  }

  #versionOf(bagId: BagId): string {
    return this.#deps.facts.get(bagId)?.sha256 ?? bagId
  }

  finish(): Promise<readonly JournalItem[]> {
    const length = this.#refuseChanged()
    const kept = keptOf(this.#deps.attributes.of(this.#node))
    const sha256 = this.#sha256
    const sum = sha256 === undefined ? {} : { sha256 }
    return Promise.resolve([{ type: 'file', path: '', file: ONLY_FILE, length, ...kept, ...sum }])
  }

  /** Of the copy, where it is known. */
  get #sha256(): string | undefined {
    const { entry, hasUnpromised } = this.#node
    if (hasUnpromised || entry === undefined) return undefined
    if (entry.kind === 'bag') return this.#deps.facts.get(entry.record.bagId)?.sha256
    const { content } = entry.intent
    if (content.from === 'staged') return content.sha256
    return content.from === 'bag' ? this.#deps.facts.get(content.bagId)?.sha256 : undefined
  }

  /** Answers the length of the copy, in bytes; throws when it is no copy of what has the name. */
  #refuseChanged(): number {
    if (this.#deps.entries.resolve(this.path) !== this.#node) throw goneFile()
    if (this.#copied?.version !== this.#version()) {
      throw new DriveError('busy', 'The file changes while it is moved.')
    }
    return this.#copied.length
  }

  async remove(to: MovedTo): Promise<void> {
    this.#refuseChanged()
    const movesOn = contentOf(this.#node)
    await this.#deps.removals.unlink(this.#node, {
      mayBeReplaced: false,
      after: to,
      ...(movesOn === undefined ? {} : { movesOn }),
    })
    this.#deps.uploader.kick()
  }

  release(): void {
    // Nothing is held but the copy, which is the caller's.
  }
}

/** A folder of the root, as a whole. */
export class RootFolderSource extends ItemSource {
  override readonly isInRoot = true
  readonly #deps: RootSourceDeps
  readonly #node: FileNode

  constructor(
    deps: RootSourceDeps,
    path: string,
    place: Place,
    openNow: () => readonly OpenPath[],
  ) {
    super(path, place, openNow)
    this.#deps = deps
    this.#node = place.open.folder.node
  }

  override check(place: NewPlace | undefined): void {
    this.#deps.removals.refuseShared(this.#node)
    super.check(place)
  }

  /** Its bag goes as a whole, with all of it that was not read. What is gone already is not lost by that. */
  override async copyTo(dir: string): Promise<void> {
    this.hold(dir)
    try {
      await this.folder.rounds.confirmBase()
    } catch (error) {
      if (!isDriveError(error, 'gone')) throw error
    }
    await super.copyTo(dir)
  }

  override async finish(): Promise<readonly JournalItem[]> {
    const [top, ...inside] = await super.finish()
    const kept = keptOf(this.#deps.attributes.of(this.#node))
    return top?.type === 'directory' ? [{ ...top, ...kept }, ...inside] : []
  }

  override get isGone(): boolean {
    return this.#deps.entries.resolve(this.path) !== this.#node
  }

  /** It goes as a whole: what another machine has put there meanwhile was not copied. */
  protected override refuseGone(): void {
    super.refuseGone()
    if (!this.folder.isOutdated) return
    throw new DriveError('stale', 'Another machine has changed this folder.')
  }

  /** It takes no more changes: it goes as a whole. */
  protected override begin(): Promise<void> {
    return Promise.resolve()
  }

  override async remove(to: MovedTo): Promise<void> {
    this.refuseGone()
    this.release()
    const { removals, openFolders, uploader } = this.#deps
    await this.folder.changes.keepMovedIn()
    await removals.unlink(this.#node, { mayBeReplaced: false, after: to })
    this.folder.folder.letGoOfItems()
    openFolders.detach(this.#node)
    uploader.kick()
  }
}

/** What of the service or the outbox a file is, as it is; undefined for one that is being written. */
function contentOf(node: FileNode): BagId | IntentId | undefined {
  const { entry, hasUnpromised } = node
  if (hasUnpromised) return undefined
  return bagIdOf(node) ?? (entry?.kind === 'pending' ? entry.intent.id : undefined)
}

/** Answers the length of a file that a power cut does not take, in bytes. */
async function syncedLength(path: string): Promise<number> {
  try {
    await syncFile(path)
    return (await stat(path)).size
  } catch (error) {
    throw fromFileSystem(error, 'A file cannot be moved')
  }
}
