import { join } from 'node:path'
import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { BagId, IntentId } from '../../domain/ids.ts'
import type { Intent, PutIntent } from '../../intents/intent.ts'
import type { Logger } from '../../domain/logger.ts'
import { nextRound } from '../../intents/rounds.ts'
import { ofPut, publish } from '../../intents/transitions.ts'
import type { Outbox } from '../../outbox/outbox.ts'
import type { FolderPort, PackOptions } from '../../outbox/ports.ts'
import type { Entries } from '../root/entries.ts'
import type { FileNode } from '../tree/nodes.ts'
import { readJournal } from './journal.ts'
import type { OpenFolder } from './open-folder.ts'
import type { OpenFolders } from './open-folders.ts'

interface FolderUploadsDeps {
  readonly folders: OpenFolders
  readonly entries: Entries
  readonly outbox: Outbox
  readonly log: Logger
}

/** The way of a folder's changes to the service: what the uploader asks, and what a start finds. */
export class FolderUploads implements FolderPort {
  readonly #deps: FolderUploadsDeps

  constructor(deps: FolderUploadsDeps) {
    this.#deps = deps
  }

  /** Packs the folder of an intent for the uploader; undefined when there is nothing to send. */
  async pack(put: PutIntent, path: string, options: PackOptions) {
    const open = await this.#folderOfIntent(put)
    return open.rounds.pack(path, options)
  }

  async committed(put: PutIntent, bagId: BagId): Promise<boolean> {
    const open = await this.#loadedFor(put.id)
    if (open === undefined) return this.#goesOnUnopened(put)
    const goesOn = await open.rounds.committed(put, bagId)
    this.#deps.entries.resolve(open.folder.node.name ?? '')
    return goesOn
  }

  /** What is being loaded must not take up changes that are finished meanwhile: its end is waited for. */
  async #loadedFor(id: IntentId): Promise<OpenFolder | undefined> {
    try {
      return await this.#deps.folders.changedBy(id)?.ready()
    } catch (error) {
      this.#deps.log.debug({ error: String(error) }, 'The zip was stored without its folder.')
      return undefined
    }
  }

  async #goesOnUnopened(put: PutIntent): Promise<boolean> {
    const next = await this.#recovered(put)
    if (next?.kind === 'put' && next.phase === 'held') await this.#restAnew(next)
    return next?.phase !== 'confirmed'
  }

  async #folderOfIntent(put: PutIntent): Promise<OpenFolder> {
    const { folders } = this.#deps
    const opened = folders.changedBy(put.id)
    if (opened !== undefined) return opened.ready()
    const node = this.#nodeOf(put.id)
    const open = node === undefined ? undefined : await folders.folderOf(node)
    if (open?.changes.id !== put.id) {
      throw new DriveError('stale', 'The folder of this change is gone.')
    }
    return open
  }

  /** By the intent and not by its name: another machine may have stored another folder of this name. */
  #nodeOf(id: IntentId): FileNode | undefined {
    const { entries } = this.#deps
    for (const entry of entries.tree().entries()) {
      if (entry.kind === 'pending' && entry.intent.id === id) return entries.resolve(entry.shown)
    }
    return undefined
  }

  /** Changes that an earlier process left go on their way: each is in its next round before the first of them is sent. */
  async recover(): Promise<void> {
    const found: PutIntent[] = []
    for (const intent of this.#deps.outbox.intents()) {
      const put = intent.kind === 'put' ? await this.#recovered(intent) : undefined
      if (put?.kind === 'put' && put.changes !== undefined) found.push(put)
    }
    for (const put of found) {
      if (put.phase === 'held') await this.#restAnew(put)
      else if (put.phase === 'waiting') await this.#loadedAtStart(put)
    }
  }

  /** Once the zip of earlier changes is stored, later ones must show: their folder is loaded before. */
  async #loadedAtStart(intent: PutIntent): Promise<void> {
    try {
      await this.#folderOfIntent(intent)
    } catch (error) {
      this.#mustWait(intent, error)
    }
  }

  /** A folder whose zip cannot be read now (no network) is left to the uploader, which tries again. */
  async #restAnew(intent: PutIntent): Promise<void> {
    try {
      const open = await this.#folderOfIntent(intent)
      open.changes.touch()
    } catch (error) {
      this.#mustWait(intent, error)
      await this.#deps.outbox.update(intent.id, publish, { durable: false })
    }
  }

  /** A change that another took the place of has no folder that shows: that is nothing to tell a person. */
  #mustWait({ name }: PutIntent, error: unknown): void {
    const { log } = this.#deps
    const level = isDriveError(error, 'stale') ? 'debug' : 'warn'
    log[level]({ name, error: String(error) }, 'A folder must wait.')
  }

  /** A kill may have come between the confirmation of a zip and the next round of later changes. */
  async #recovered(put: PutIntent): Promise<Intent | undefined> {
    const { bagId, changes, phase } = put
    if (phase !== 'confirmed' || bagId === undefined || changes === undefined) return put
    const { outbox } = this.#deps
    const { operations } = await readJournal(join(outbox.directory(put.id), 'journal.jsonl'))
    // A folder whose stored zip got another name was not packed.
    const { start, packed = start } = changes
    if (operations.length <= packed) return put
    const zip = { bagId, packed, deleted: put.deleted ?? [], forgetBeforeMs: 0 }
    return outbox.update(
      put.id,
      ofPut((latest) => nextRound(latest, zip)),
      { durable: true },
    )
  }

  /** Sends the changes of one folder, or of all, now; answers the intents to wait for. */
  async publish(name?: string): Promise<readonly IntentId[]> {
    const ids: IntentId[] = []
    for (const open of this.#deps.folders.all()) {
      if (name !== undefined && open.folder.node.name !== name) continue
      const id = await open.publish()
      if (id !== undefined) ids.push(id)
    }
    return ids
  }

  /** Sends what came after the zip of an intent was packed; answers what to wait for, if there is any. */
  async publishAgain(id: IntentId): Promise<IntentId | undefined> {
    return this.#deps.folders.changedBy(id)?.publish()
  }
}
