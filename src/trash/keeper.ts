import { renameSync } from 'node:fs'
import { sha256OfFile } from '../disk/file-hash.ts'
import type { Clock } from '../domain/clock.ts'
import { isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import { KeyedLock } from '../domain/keyed-lock.ts'
import type { Logger } from '../domain/logger.ts'
import type { FactsAccess } from '../domain/record.ts'
import type { TrashItem } from './item.ts'
import type { Trash } from './trash.ts'

/** The program that removes a file waits so long for its content to be fetched ... */
const FETCH_MS = 5_000
/** ... and so long again for each further part of this size. */
const FETCH_PART_BYTES = 16 * 1024 * 1024
/** Programs that had a deleted bag open may open it once more for so long: the cache keeps it, too. */
const CACHED_MS = 60_000

/** A bag that is about to be deleted. */
export interface DoomedBag {
  readonly bagId: BagId
  readonly name: string
  readonly description: string
  readonly why: TrashItem['why']
  /** When it was uploaded, in ms; 0 where that is not known. */
  readonly uploadedAtMs: number
  /** What takes its place: the same content goes on under another name or description. */
  readonly next?: { readonly length: number; readonly sha256: string }
}

/** Of a bag that is deleted and of which nothing stays. */
interface NotKept {
  /** A part of a sentence. */
  readonly why: string
  readonly bytes: number | undefined
}

/** Where content is on this machine, or comes from. */
interface ContentAtHand {
  /** Sets aside what the disk has damaged. */
  check(bagId: BagId): Promise<void>
  isComplete(bagId: BagId): boolean
  lengthOf(bagId: BagId): number | undefined
  /** Gives complete content another name; false when it is not all here. */
  linkTo(bagId: BagId, path: string): Promise<boolean>
  copyTo(
    bagId: BagId,
    path: string,
    options: { readonly signal: AbortSignal; readonly onProgress: (bytes: number) => void },
  ): Promise<number>
  /** Lets go of content that no program has open. */
  forget(bagId: BagId): void
}

interface KeeperDeps {
  readonly trash: Trash
  readonly content: ContentAtHand
  readonly facts: Pick<FactsAccess, 'get'>
  readonly listedSizes: (bagId: BagId) => readonly number[]
  /** The largest content that is fetched before its bag is deleted; 0 fetches none. */
  readonly fetchDeletedBytes: number
  readonly clock: Clock
  readonly log: Logger
  readonly onStep?: (step: 'trash.placed' | 'trash.kept') => void
}

/**
 * Puts the content of a bag into the trash before the bag is deleted. What cannot be kept is told in the log, and is
 * deleted all the same: a person who deletes something must not be kept from it.
 */
export class Keeper {
  readonly #deps: KeeperDeps
  /** What became of the fetch of content, until its bag is dealt with. */
  readonly #fetches = new Map<BagId, 'came' | 'no-room'>()
  readonly #turns = new KeyedLock<BagId>()
  /** What the cache has of kept bags, oldest first. */
  #cached: { readonly bagId: BagId; readonly atMs: number }[] = []
  #cancel: (() => void) | undefined

  constructor(deps: KeeperDeps) {
    this.#deps = deps
  }

  /**
   * Runs a task that may keep a bag: content that is not on this machine, and not too large, is fetched first. What the task
   * leaves of that is removed. Settles as the task does. For each bag one at a time.
   */
  whileFetched<Result>(
    bagId: BagId,
    signal: AbortSignal,
    task: () => Promise<Result>,
  ): Promise<Result> {
    return this.#turns.run(bagId, async () => {
      await this.#prepare(bagId, signal)
      try {
        return await task()
      } finally {
        await this.#letGo(bagId)
      }
    })
  }

  /** Never rejects. */
  async #prepare(bagId: BagId, signal: AbortSignal): Promise<void> {
    const { trash, content, fetchDeletedBytes, log } = this.#deps
    if (trash.isOff) return
    try {
      await content.check(bagId)
      if (content.isComplete(bagId) || trash.files.lengthOf(bagId) !== undefined) return
      const length = this.#lengthOf(bagId)
      if (length === undefined || length > fetchDeletedBytes || fetchDeletedBytes === 0) return
      if (!(await trash.canTake(length))) {
        this.#fetches.set(bagId, 'no-room')
        return
      }
      await this.#fetch(bagId, length, signal)
      this.#fetches.set(bagId, 'came')
    } catch (error) {
      // Another machine may have deleted it.
      if (isDriveError(error, 'gone', 'not-found')) return
      log.debug({ bagId, error: String(error) }, 'Not fetched for the trash.')
    }
  }

  /** Never rejects. */
  async #letGo(bagId: BagId): Promise<void> {
    const { trash, log } = this.#deps
    if (!this.#fetches.delete(bagId)) return
    await trash.files.removeFetched(bagId).catch((error: unknown) => {
      log.debug({ bagId, error: String(error) }, 'Not removed from the trash until the next mount.')
    })
  }

  async #fetch(bagId: BagId, length: number, signal: AbortSignal): Promise<void> {
    const { content, trash, fetchDeletedBytes } = this.#deps
    const tooLarge = new AbortController()
    const signals = [signal, tooLarge.signal, AbortSignal.timeout(fetchMsOf(length))]
    await content.copyTo(bagId, trash.files.fetchedPath(bagId), {
      signal: AbortSignal.any(signals),
      onProgress: (bytes) => {
        if (bytes > fetchDeletedBytes) tooLarge.abort()
      },
    })
  }

  /** On disk when it resolves; answers why it is not kept, for `noteNotKept`. Never rejects. */
  async keep(bag: DoomedBag): Promise<NotKept | undefined> {
    if (this.#deps.trash.isOff) return undefined
    try {
      return await this.#keep(bag)
    } catch (error) {
      return { why: `it could not be written (${String(error)})`, bytes: undefined }
    }
  }

  /** The bag is deleted now. */
  noteNotKept({ bagId, name }: DoomedBag, { why, bytes }: NotKept): void {
    const { trash, log } = this.#deps
    log.warn({ bagId, name, bytes }, `Deleted and not kept in the trash: ${why}.`)
    trash.noteNotKept()
  }

  async #keep(bag: DoomedBag): Promise<NotKept | undefined> {
    const { trash, facts, onStep } = this.#deps
    const { bagId, next } = bag
    const known = facts.get(bagId)?.sha256
    if (known !== undefined && known === next?.sha256) return undefined
    const length = await this.#place(bagId)
    if (typeof length !== 'number') return length
    onStep?.('trash.placed')
    const sha256 = known ?? (await this.#sumLike(bag, length))
    if (sha256 !== undefined && sha256 === next?.sha256) {
      await trash.files.removeContent(bagId)
      return undefined
    }
    const isNewHere = this.#fetches.get(bagId) === 'came'
    trash.add(this.#itemOf(bag, { length, sha256 }), { isNewHere })
    onStep?.('trash.kept')
    return undefined
  }

  #itemOf(
    { bagId, name, why, description, uploadedAtMs }: DoomedBag,
    { length, sha256 }: { readonly length: number; readonly sha256: string | undefined },
  ): TrashItem {
    const { facts, clock } = this.#deps
    const {
      kind,
      mode,
      mtimeMs = uploadedAtMs,
      atimeMs,
      uid,
      gid,
      extended,
    } = facts.get(bagId) ?? {}
    return {
      ...{ bagId, name, why, length, description },
      ...{ mtimeMs, atimeMs, uid, gid, extended },
      isFolder: kind === 'folder',
      ...(sha256 === undefined ? {} : { sha256 }),
      ...(mode === undefined ? {} : { mode }),
      deletedAtMs: clock.now(),
    }
  }

  /** The sum of content that may be the same as what takes its place; undefined for any other. */
  async #sumLike({ bagId, next }: DoomedBag, length: number): Promise<string | undefined> {
    if (next?.length !== length) return undefined
    return sha256OfFile(this.#deps.trash.files.contentPath(bagId))
  }

  /** Answers the length of content that is placed. */
  async #place(bagId: BagId): Promise<number | NotKept> {
    const { trash, facts } = this.#deps
    const length = (await this.#isPlaced(bagId)) ? trash.files.lengthOf(bagId) : undefined
    const isAsKnown = length === (facts.get(bagId)?.length ?? length)
    if (length !== undefined && isAsKnown && length <= trash.mostBytes) return length
    await trash.files.removeContent(bagId)
    const why = length === undefined ? this.#whyNotHere(bagId) : 'it is too large'
    return { why, bytes: length ?? this.#lengthOf(bagId) }
  }

  #whyNotHere(bagId: BagId): string {
    const hasNoRoom = this.#fetches.get(bagId) === 'no-room'
    return `it was not on this machine${hasNoRoom ? ', which has no room for it' : ''}`
  }

  async #isPlaced(bagId: BagId): Promise<boolean> {
    const { trash, content } = this.#deps
    const { files } = trash
    // The same bag was deleted before, or a kill came between.
    if (files.lengthOf(bagId) !== undefined) return true
    if (await content.linkTo(bagId, files.contentPath(bagId))) {
      this.#noteCached(bagId)
      return true
    }
    if (this.#fetches.get(bagId) !== 'came') return false
    renameSync(files.fetchedPath(bagId), files.contentPath(bagId))
    return true
  }

  #lengthOf(bagId: BagId): number | undefined {
    return this.#deps.content.lengthOf(bagId) ?? this.#deps.listedSizes(bagId)[0]
  }

  close(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  /** What is in the trash takes no room of the cache for long. */
  #noteCached(bagId: BagId): void {
    const { clock } = this.#deps
    this.#cached.push({ bagId, atMs: clock.now() })
    this.#forgetLater()
  }

  #forgetLater(): void {
    this.#cancel ??= this.#deps.clock.after(CACHED_MS, () => {
      this.#cancel = undefined
      this.#forgetCached()
    })
  }

  #forgetCached(): void {
    const { clock, content } = this.#deps
    const isDue = ({ atMs }: { readonly atMs: number }): boolean => clock.now() - atMs >= CACHED_MS
    const due = this.#cached.filter(isDue)
    this.#cached = this.#cached.filter((each) => !isDue(each))
    for (const { bagId } of due) content.forget(bagId)
    if (this.#cached.length > 0) this.#forgetLater()
  }
}

function fetchMsOf(length: number): number {
  return Math.round(FETCH_MS * Math.max(1, length / FETCH_PART_BYTES))
}
