import type { Clock } from '../../domain/clock.ts'
import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { KeyedLock } from '../../domain/keyed-lock.ts'
import type { BagId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import type { Intent, PutIntent } from '../../intents/intent.ts'
import { isTaken, isUnstored } from '../../intents/rules.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import { broughtBack, onWayBack, stageRestored } from '../../outbox/restored.ts'
import type { TrashItem } from '../../trash/item.ts'
import type { Trash, TrashReport } from '../../trash/trash.ts'
import type { Space } from '../space/space.ts'
import type { DriveSettings } from '../settings.ts'
import { usualMode } from '../settings.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { Committer } from './commit.ts'
import type { Entries } from './entries.ts'
import type { NameChanges } from './name-changes.ts'
import { refuseTrash } from './save-steps.ts'
import type { RootNodes } from './root-nodes.ts'

interface RootTrashDeps {
  readonly trash: Trash
  readonly outbox: Outbox
  readonly entries: Entries
  readonly names: KeyedLock<'names'>
  readonly changes: NameChanges
  readonly committer: Committer
  readonly rootNodes: RootNodes
  readonly space: Space
  readonly clock: Clock
  readonly log: Logger
}

const IN_OUTBOX = 'bagfs outbox shows it, and what it waits for.'

export interface RestoreOptions {
  /** Another name than it had. */
  readonly name?: string
  /** A file takes the place of the stored file that has the name, which goes to the trash itself. */
  readonly replace?: boolean
}

/** What was deleted or replaced, as the root shows and restores it. */
export class RootTrash {
  readonly #deps: RootTrashDeps
  readonly #settings: Pick<DriveSettings, 'umask' | 'readOnly'>

  constructor(deps: RootTrashDeps, settings: Pick<DriveSettings, 'umask' | 'readOnly'>) {
    this.#deps = deps
    this.#settings = settings
    for (const intent of deps.outbox.intents()) this.#forgetStored(intent)
    deps.outbox.onChange((before, after) => {
      this.#forgetStored(after)
      this.#noteGone(before, after)
    })
  }

  /** The newest first, without what came back as the same bag, or is on its way back. */
  items(): readonly TrashItem[] {
    const { trash, entries } = this.#deps
    const back = this.#onWayBack
    return trash.items().filter(({ bagId }) => !entries.shows(bagId) && !back.has(bagId))
  }

  isDeleted({ bagId }: TrashItem): boolean {
    return !this.#deps.entries.shows(bagId) && !this.#onWayBack.has(bagId)
  }

  get #onWayBack(): ReadonlySet<BagId> {
    return onWayBack(this.#deps.outbox.intents())
  }

  /** The service has it again; until then a change of mind leaves it in the trash. */
  #forgetStored(intent: Intent | undefined): void {
    const { trash, log } = this.#deps
    const item = broughtBack(intent, (bagId) => trash.get(bagId))
    if (item === undefined) return
    trash.remove([item.bagId]).catch((error: unknown) => {
      log.warn({ bagId: item.bagId, error: String(error) }, 'What came back stays in the trash.')
    })
  }

  /** What was on its way back and is not stored is deleted now, once more. */
  #noteGone(before: Intent | undefined, after: Intent | undefined): void {
    if (before?.kind !== 'put' || before.restores === undefined || isTaken(before)) return
    if (after?.kind === 'put' && after.restores === before.restores) return
    this.#deps.trash.renew(before.restores)
  }

  report(): TrashReport {
    return this.#deps.trash.report()
  }

  /** Removes these for good. */
  async empty(bagIds: readonly BagId[]): Promise<void> {
    await this.#deps.trash.remove(bagIds)
  }

  /**
   * Puts an item back, as an ordinary put: resolves when that is as safe as the mode promises. Rejects
   * `exists` where the name is taken, and `busy` where what it would replace is not stored yet. It leaves the item in the
   * trash then.
   */
  async restore(bagId: BagId, options: RestoreOptions = {}): Promise<void> {
    const { trash, committer } = this.#deps
    if (this.#settings.readOnly) throw new DriveError('read-only', 'The drive is read-only.')
    const item = trash.get(bagId)
    if (item === undefined) throw new DriveError('not-found', 'The trash does not have it.')
    if (this.#onWayBack.has(bagId)) {
      throw new DriveError('exists', `${item.name} is on its way back already.`, {
        hint: IN_OUTBOX,
      })
    }
    const { name = item.name } = options
    const put = await this.#put(item, name, options)
    try {
      await committer.secure(put.id)
    } catch (error) {
      throw toWaiting(error, name)
    }
  }

  async #put(item: TrashItem, name: string, options: RestoreOptions): Promise<PutIntent> {
    const { trash, outbox, entries, rootNodes, space, names, changes, clock } = this.#deps
    const { isFolder, length } = item
    refuseTrash(name)
    await entries.fresh()
    await rootNodes.learnForChange(name)
    await this.#checkPlace(name, isFolder, options)
    await space.check(length)
    const draft = outbox.createDraft()
    try {
      const restored = await stageRestored({ outbox, files: trash.files }, item, draft.id)
      return await names.run('names', async () => {
        await this.#checkPlace(name, isFolder, options)
        const what = {
          ...restored,
          ctimeMs: clock.now(),
          mode: item.mode ?? usualMode(isFolder, this.#settings),
        }
        return changes.putNew(name, what, draft.id)
      })
    } catch (error) {
      await outbox.discardDraft(draft.id)
      throw error
    }
  }

  async #checkPlace(name: string, isFolder: boolean, { replace }: RestoreOptions): Promise<void> {
    const target = this.#deps.entries.resolve(name)
    if (target === undefined) return
    if (replace === true && !isFolder) {
      await this.#deps.rootNodes.checkReplacement(target, isFolder)
      refuseUnstored(target, name)
      return
    }
    const orReplace = isFolder ? '' : ', or let it take that place with --replace'
    throw new DriveError('exists', `There is something called ${name} already.`, {
      hint: `Give it another name with --as NAME${orReplace}.`,
    })
  }
}

/** What the service never had goes to no trash. */
function refuseUnstored({ entry, hasUnpromised }: FileNode, name: string): void {
  const isWaiting = entry?.kind === 'pending' && isUnstored(entry.intent)
  if (!hasUnpromised && !isWaiting) return
  throw new DriveError('busy', `${name} has content that is not stored yet.`, {
    hint: 'Wait until bagfs sync returns, or give that content up with bagfs outbox discard.',
  })
}

/** The outbox has it whatever becomes of the upload. */
function toWaiting(error: unknown, name: string): unknown {
  if (!isDriveError(error)) return error
  const words = `${name} is back, and waits in the outbox to be stored: ${error.message}`
  return new DriveError(error.code, words, { ...error.facts, cause: error, hint: IN_OUTBOX })
}
