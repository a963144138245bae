import { link, mkdir, readdir, readFile, rm, truncate } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { writeFileAtomic } from '../../disk/atomic-file.ts'
import { ifThere } from '../../disk/if-there.ts'
import { makeDirectoryFor } from '../../disk/make-directory.ts'
import { syncDirectory } from '../../disk/sync.ts'
import { DriveError, fromFileSystem } from '../../domain/errors.ts'
import type { IntentId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import type { PutIntent } from '../../intents/intent.ts'
import { hasMovedLater } from '../../intents/rules.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import { leftToExchange } from './exchanging.ts'
import { filesOf, Journal, readJournal, type Operation } from './journal.ts'
import { findLost, type Lost } from './lost-content.ts'
import { layOver, readClosed } from './undo.ts'

interface ChangeFilesDeps {
  readonly outbox: Outbox
  readonly log: Logger
}

/** In what is set aside: the paths of what is lost. */
const LOST_FILE = 'lost.json'

/** A line that stands for one which is in the zip, and damaged. */
const NO_CHANGE: Operation = { op: 'attributes', path: '' }

/** In the directory of a folder's intent: the journal, staged content, and what was closed of content that changes in place. */
export class ChangeFiles {
  readonly #deps: ChangeFilesDeps
  readonly #root: string
  #journal: Journal | undefined
  #nextFile = 1
  #hasLostMoved = false
  /** Staged files to remove at the next sync. */
  readonly #dropped: string[] = []

  private constructor(deps: ChangeFilesDeps, root: string) {
    this.#deps = deps
    this.#root = root
  }

  /**
   * Takes up what is there, and sets aside what a power cut or the disk has damaged. Answers the operations that the
   * base of the intent does not have, and whether something that moved in is lost.
   */
  static async open(
    deps: ChangeFilesDeps,
    intent: PutIntent,
  ): Promise<{
    readonly files: ChangeFiles
    readonly unstored: readonly Operation[]
    readonly hasLostMoved: boolean
  }> {
    const files = new ChangeFiles(deps, deps.outbox.directory(intent.id))
    const unstored = await files.#open(intent)
    return { files, unstored, hasLostMoved: files.#hasLostMoved }
  }

  async #open(intent: PutIntent): Promise<readonly Operation[]> {
    const { outbox } = this.#deps
    const path = this.#path('journal.jsonl')
    const { operations, wholeBytes, damaged } = await readJournal(path)
    makeDirectoryFor('The changes of a folder cannot be taken up', this.dir)
    await this.#undoTorn(operations)
    const { start = 0, packed = start } = intent.changes ?? {}
    const areSumsOpen = outbox.isUnchecked('changes', intent.id)
    const lost = await findLost(this.dir, operations.slice(start), { areSumsOpen })
    if (lost.length > 0) await this.#takeOutLost(intent, lost)
    outbox.noteWhole('changes', intent.id)
    // A line that is gone told of what moved in.
    if (hasMovedLater(outbox, intent.id, Math.max(packed, operations.length))) {
      this.#hasLostMoved = true
    }
    if (damaged.length > 0) await this.#setAside(intent, operations, damaged)
    const journal = Journal.open(path, operations.length)
    this.#journal = journal
    await truncate(path, wholeBytes)
    await this.#clear(operations)
    const left = leftToExchange(operations)
    journal.append(...left)
    // Later changes are counted on from what the zip has.
    while (journal.count < packed) journal.append(NO_CHANGE)
    return [...operations, ...left].slice(start)
  }

  /** What a damaged line hides is kept for the user: the rest of the journal, and content only it may name. */
  async #setAside(
    { id, name }: PutIntent,
    operations: readonly Operation[],
    damaged: Buffer,
  ): Promise<void> {
    const named = new Set(operations.flatMap(filesOf))
    await this.#deps.outbox.setAside(id, async (aside) => {
      await writeFileAtomic(join(aside, 'journal.jsonl'), damaged, { durable: true })
      const unnamed = (await readdir(this.dir)).filter((file) => !named.has(file))
      await this.#linkTo(join(aside, 'files'), unnamed)
    })
    this.#deps.log.error(
      { intent: id, folder: name },
      'Changes of a folder are damaged; set aside.',
    )
  }

  /** What a power cut or the disk took is set aside, and the tree is made without it. */
  async #takeOutLost({ id, name }: PutIntent, lost: readonly Lost[]): Promise<void> {
    this.#hasLostMoved = lost.some(({ hasMoved }) => hasMoved)
    const paths = lost.map(({ path }) => path)
    const told = `${JSON.stringify(paths, undefined, 2)}\n`
    const files = new Set(lost.filter(({ isMissing }) => !isMissing).map(({ file }) => file))
    // The next process finds them missing, too.
    if (files.size === 0 && (await this.#wasTold(id, told))) return
    await this.#deps.outbox.setAside(id, async (aside) => {
      await writeFileAtomic(join(aside, LOST_FILE), told, { durable: true })
      await this.#linkTo(join(aside, 'files'), [...files])
    })
    for (const file of files) await rm(join(this.dir, file))
    this.#deps.log.error(
      { intent: id, folder: name, paths },
      'Files of a folder are damaged or gone from the disk; set aside.',
    )
  }

  async #wasTold(id: IntentId, told: string): Promise<boolean> {
    const { outbox } = this.#deps
    const ofThis = outbox.damaged().filter((aside) => basename(aside).includes(id))
    const texts = ofThis.map((aside) => ifThere(readFile(join(aside, LOST_FILE), 'utf8')))
    return (await Promise.all(texts)).includes(told)
  }

  async #linkTo(dir: string, files: readonly string[]): Promise<void> {
    await mkdir(dir, { mode: 0o700 })
    for (const file of files) await link(join(this.dir, file), join(dir, file))
    await syncDirectory(dir)
  }

  /** Content that no journal names was not promised; nothing of it may get into new content. */
  async #clear(operations: readonly Operation[]): Promise<void> {
    const named = new Set(operations.flatMap(filesOf))
    for (const file of [...named, ...(await readdir(this.dir))]) {
      this.#nextFile = Math.max(this.#nextFile, Number(file) + 1)
      if (!named.has(file)) await rm(join(this.dir, file), { force: true })
    }
  }

  /**
   * What was being written in place is as it was closed. Kept is also what a later operation promised anew:
   * that is as it is.
   */
  async #undoTorn(operations: readonly Operation[]): Promise<void> {
    const undos = this.#path('undo')
    const files = await namesIn(this.dir)
    for (const file of await namesIn(undos)) {
      const kept = join(undos, file)
      const closed = await readClosed(kept)
      const isOutdated =
        closed !== undefined && operations.slice(closed.operations).flatMap(filesOf).includes(file)
      if (!isOutdated && files.includes(file)) await layOver(kept, join(this.dir, file))
      await rm(kept)
    }
  }

  /** Where staged content lies. */
  get dir(): string {
    return this.#path('files')
  }

  /** Operations so far. */
  get count(): number {
    return this.#journal?.count ?? 0
  }

  /** Where content of the staging directory is kept as it was closed, while it is written in place. */
  undoPath(file: string): string {
    return join(this.#path('undo'), file)
  }

  /** A path for new content; nothing is there yet. */
  newFile(): { readonly file: string; readonly path: string } {
    const file = String(this.#nextFile)
    this.#nextFile += 1
    return { file, path: join(this.dir, file) }
  }

  append(operations: readonly Operation[]): void {
    if (this.#journal === undefined) throw new DriveError('stale', 'The folder is gone.')
    this.#journal.append(...operations)
  }

  /** Content and the journal are to be on the platter with the next group; answers that. */
  note(paths: readonly string[], options: { readonly isGiven?: boolean } = {}): number {
    const { sync } = this.#deps.outbox
    const group = sync.note([...paths, this.dir, this.#path('journal.jsonl')], options)
    this.#removeDropped()
    return group
  }

  /** Removes a staged file of which the journal has no need any more, once that is on disk. */
  drop(path: string): void {
    this.#dropped.push(path)
  }

  #removeDropped(): void {
    const { sync } = this.#deps.outbox
    if (this.#dropped.length === 0) return
    const dropped = this.#dropped.splice(0)
    sync
      .passed()
      .then(() => removeAll(dropped))
      .catch((error: unknown) => {
        this.#deps.log.warn({ error: String(error) }, 'Staged content stays behind.')
      })
  }

  /** No more is taken. */
  close(): void {
    this.#journal?.close()
    this.#journal = undefined
  }

  /** Removes everything; nothing of it may be needed any more. */
  async remove(): Promise<void> {
    this.#dropped.length = 0
    try {
      await rm(this.dir, { recursive: true, force: true })
      await rm(this.#path('undo'), { recursive: true, force: true })
      await rm(this.#path('journal.jsonl'), { force: true })
    } catch (error) {
      throw fromFileSystem(error, 'The staged content of a folder cannot be removed')
    }
  }

  #path(name: string): string {
    return join(this.#root, name)
  }
}

async function removeAll(paths: readonly string[]): Promise<void> {
  for (const path of paths) await rm(path, { force: true })
}

/** Names in a directory that may not be there. */
async function namesIn(dir: string): Promise<readonly string[]> {
  return (await ifThere(readdir(dir), 'The changes of a folder cannot be read')) ?? []
}
