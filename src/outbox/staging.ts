import { rename, rm, stat } from 'node:fs/promises'
import { copyIfThere } from '../disk/copy-if-there.ts'
import { sha256OfFile } from '../disk/file-hash.ts'
import { ifThere, isThere } from '../disk/if-there.ts'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { PutIntent } from '../intents/intent.ts'
import type { UploaderDeps } from './ports.ts'

/** The content of puts while it lies in the outbox: how it gets there from a bag, whether it is whole, how it leaves for the cache. */
export class Staging {
  readonly #deps: UploaderDeps

  constructor(deps: UploaderDeps) {
    this.#deps = deps
  }

  /** Fetches the content of a bag that gets another name. Answers what was fetched. */
  async fetch(
    { id }: PutIntent,
    bagId: BagId,
    signal: AbortSignal,
  ): Promise<{ readonly length: number; readonly sha256: string }> {
    const path = this.#deps.outbox.contentPath(id)
    const partial = `${path}.partial`
    await rm(partial, { force: true })
    const length = await this.#copy(bagId, partial, signal)
    const known = this.#deps.facts.get(bagId)?.sha256
    const sha256 = known ?? (await sha256OfFile(partial, signal))
    this.#deps.onStep?.('stage.fetched')
    await rename(partial, path)
    this.#deps.onStep?.('stage.placed')
    return { length, sha256 }
  }

  /**
   * Content that another machine deleted at the service, and that is not in the cache, does not
   * come back by itself.
   */
  async #copy(bagId: BagId, path: string, signal: AbortSignal): Promise<number> {
    const { outbox, content } = this.#deps
    const staged = outbox.stagedAs(bagId)
    const what = 'Staged content cannot be copied'
    if (staged !== undefined && (await copyIfThere(staged, path, what))) {
      return (await stat(path)).size
    }
    try {
      return await content.copyTo(bagId, path, { signal })
    } catch (error) {
      if (!isDriveError(error, 'gone')) throw error
      throw new DriveError(
        'not-found',
        'Its content is gone at the service, so it cannot be stored under another name.',
        { cause: error, hint: 'bagfs outbox discard forgets the change.' },
      )
    }
  }

  /** False for the zip of a folder that went straight to the service: this machine had no room for it. */
  async isKept(put: PutIntent): Promise<boolean> {
    if (put.isFolder !== true || put.changes === undefined) return true
    return isThere(this.#deps.outbox.contentPath(put.id), 'Staged content cannot be read')
  }

  /** False for content that a power cut took before it was on the platter: its place is there, and other bytes in it. */
  async isWhole({ id, content }: PutIntent): Promise<boolean> {
    const { outbox } = this.#deps
    if (content.from !== 'staged' || !outbox.isUnchecked('content', id)) return true
    const sum = await ifThere(sha256OfFile(outbox.contentPath(id)), 'Staged content cannot be read')
    if (sum !== content.sha256) return false
    outbox.noteWhole('content', id)
    return true
  }

  /** The cache is a convenience: content that it cannot take is simply fetched again later. */
  async giveToCache(put: PutIntent): Promise<void> {
    if (put.bagId === undefined || put.content.from !== 'staged') return
    const path = this.#deps.outbox.contentPath(put.id)
    this.#deps.onStep?.('cache.begin')
    try {
      if (await this.isWhole(put)) {
        await this.#deps.content.adopt(put.bagId, path, put.content.length)
      } else await rm(path, { force: true })
    } catch (error) {
      this.#deps.log.debug({ bagId: put.bagId, error: String(error) }, 'Not taken into the cache.')
      await rm(path, { force: true })
    }
    this.#deps.onStep?.('cache.taken')
  }
}
