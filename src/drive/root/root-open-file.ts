import type { Clock } from '../../domain/clock.ts'
import { goneFile } from '../../domain/errors.ts'
import type { NodeId } from '../../domain/ids.ts'
import type { WholeFile } from '../../domain/whole-file.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { Space } from '../space/space.ts'
import type { MadeAttributes } from '../tree/home.ts'
import type { News } from '../tree/news.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { RootNames } from './root-names.ts'
import { OpenFile, type OpenMode } from '../tree/open-file.ts'
import type { Source } from '../tree/source.ts'
import type { StagedFile } from '../tree/staged-file.ts'
import type { Committer } from './commit.ts'
import type { Contents } from './contents.ts'
import type { Entries } from './entries.ts'
import type { RootAttributes } from './root-attributes.ts'

export interface RootOpenFileDeps {
  readonly contents: Contents
  readonly entries: Entries
  readonly rootNames: RootNames
  readonly news: News
  readonly committer: Committer
  readonly outbox: Outbox
  readonly space: Space
  /** Held while the content of a node changes hands: staging and committing. */
  readonly nodeLocks: KeyedLock<FileNode>
  readonly clock: Clock
  readonly log: Logger
  readonly attributes: RootAttributes
}

/** An open file of the root: it is written into a draft of the outbox, and close makes that a put. */
export class RootOpenFile extends OpenFile {
  readonly node: FileNode
  readonly #deps: RootOpenFileDeps
  /** What it reads while nothing is staged; opened at the first read or length. An open for writing costs no request. */
  #source: Source | undefined

  constructor(deps: RootOpenFileDeps, node: FileNode, mode: OpenMode) {
    super(deps.clock, mode)
    this.#deps = deps
    this.node = node
    node.handles.add(this)
  }

  override get nodeId(): NodeId {
    return this.node.id
  }

  /** For the kernel, a file that stands aside is the same as the one that has its name now. */
  override uploadedOnClose(): NodeId | undefined {
    const { node } = this
    if (!this.writable || node.staged === undefined || writersOf(node) > 1) return undefined
    const other = this.#deps.rootNames.findAside((aside) => writersOf(aside) > 0)
    return other === undefined ? node.id : undefined
  }

  /** Waits until the true length is known, so that no reader is cut short. */
  async learnLength(): Promise<void> {
    const { node } = this
    const { entry, staged } = node
    if (staged !== undefined) return
    if (entry === undefined) throw goneFile()
    const shown = this.#deps.contents.sizeOf(entry)
    const length = await this.source().length()
    const nowMs = this.#deps.clock.now()
    const isShownOtherwise =
      entry.kind === 'bag' && node.isShownOtherwise(entry.record.bagId, length, nowMs)
    if (length !== shown || isShownOtherwise) this.noteOtherSize(nowMs)
  }

  protected override source(): Source {
    const { staged, entry } = this.node
    if (staged !== undefined) return staged
    if (this.#source !== undefined) return this.#source
    if (entry === undefined) throw goneFile()
    this.#source = this.#deps.contents.open(entry)
    return this.#source
  }

  override noteKept(): void {
    this.source().noteKept?.()
  }

  override wholeFile(): WholeFile | undefined {
    return this.node.staged === undefined ? this.source().wholeFile?.() : undefined
  }

  protected override draft(): StagedFile | undefined {
    const { staged } = this.node
    return staged?.isDraft === true ? staged : undefined
  }

  protected override isCurrent(staged: StagedFile): boolean {
    return staged.isDraft && staged === this.node.staged
  }

  /** A draft that starts as a copy of the version that the node is, or empty. */
  protected override async stage({ empty }: { readonly empty: boolean }): Promise<StagedFile> {
    const { node } = this
    const { nodeLocks, space, contents } = this.#deps
    return nodeLocks.run(node, async () => {
      if (node.staged?.isDraft === true) return node.staged
      this.#follow()
      const attributes = () => {
        this.#follow()
        const { mode, atimeMs, uid, gid, extended } = this.#deps.attributes.of(node)
        return { mode, atimeMs, uid, gid, extended }
      }
      const room = space.room(() => node.name)
      const staged = await contents.stage(node, { empty, attributes, room }, this.#source)
      const before = node.staged
      node.staged = staged
      before?.close()
      return staged
    })
  }

  /** A new file, before it has an entry. */
  async stageNew(made: MadeAttributes): Promise<void> {
    const staged = await this.stage({ empty: true })
    staged.begin(made)
  }

  /** Learns what became of a node here: that it was stored. What another machine did sets it aside. */
  #follow(): void {
    const { name, isAside } = this.node
    if (name !== undefined && !isAside) this.#deps.entries.resolve(name)
  }

  protected override noteOtherSize(nowMs: number): void {
    this.node.sizeChangedAtMs = nowMs
    this.#deps.news.content(this.node.id)
  }

  protected override moveAtime(nowMs: number): boolean {
    return this.#deps.attributes.moveAtime(this.node, nowMs)
  }

  protected override async keep(): Promise<void> {
    await this.#deps.committer.commitAndWait(this.node)
  }

  /** What no close has promised goes to the outbox when this was the last open file. */
  override async close(): Promise<void> {
    const { node } = this
    const { committer, rootNames } = this.#deps
    node.handles.delete(this)
    this.#source?.close()
    if (node.handles.size > 0) return
    try {
      const intent = await committer.commit(node)
      // What failed was tried by close, which told of it; another try is the uploader's to time.
      if (intent?.phase === 'waiting' && intent.failure === undefined) {
        await committer.secure(intent.id)
      }
    } finally {
      this.#letGo()
      rootNames.forgetIfUnused(node)
    }
  }

  #letGo(): void {
    const { node } = this
    const { staged } = node
    if (staged === undefined || node.handles.size > 0) return
    // A named file that could not be committed keeps its content, for the next close to try again.
    if (staged.hasUnpromised && !staged.isHalf && node.name !== undefined) return
    node.staged = undefined
    if (node.name !== undefined) this.#deps.news.names([node.name])
    this.#discard(staged)
    // Half a file takes the place of nothing: the name has what it had before, or goes.
    if (staged.isHalf && node.entry === undefined) this.#deps.rootNames.unlink(node)
  }

  #discard(staged: StagedFile): void {
    staged.close()
    staged.room.giveBack()
    if (!staged.hasUnpromised) return
    this.#deps.outbox.discardDraft(staged.id).catch((error: unknown) => {
      this.#deps.log.warn({ draft: staged.id, error: String(error) }, 'A draft stays behind.')
    })
  }
}

/** Open files that may write the content of a node. */
function writersOf({ handles }: FileNode): number {
  return [...handles].filter(({ writable }) => writable).length
}
