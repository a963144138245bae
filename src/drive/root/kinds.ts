import PQueue from 'p-queue'
import { makeClosing } from '../../domain/closing.ts'
import type { SpecialKind } from '../../domain/attributes.ts'
import type { BagCache, BagHead } from '../../content/bag-cache.ts'
import type { Clock } from '../../domain/clock.ts'
import { DriveError, isDriveError } from '../../domain/errors.ts'
import { isZipName, type FolderNaming } from '../../domain/folder-names.ts'
import type { BagId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import type { BagRecord, FactsAccess } from '../../domain/record.ts'
import { inTurns } from '../../domain/turns.ts'
import {
  isOwnFolder,
  kindFromHead,
  kindFromName,
  looksLikeZip,
  type BagKind,
} from '../../zip/detect.ts'
import type { Entry } from '../../namespace/entry.ts'
import type { Listing } from '../../namespace/listing.ts'
import type { Tree } from '../../namespace/tree.ts'

interface KindsDeps {
  readonly cache: BagCache
  readonly facts: FactsAccess
  /** How the service names folders, as far as that is known. */
  readonly folderNames: { get(): FolderNaming | undefined; learn(names: FolderNaming): void }
  readonly listing: Pick<Listing, 'current'>
  readonly clock: Clock
  readonly log: Logger
}

/** Heads that are fetched at the same time. */
const PROBES = 4
/** As far as the name of a first entry goes, but for absurd ones. */
const HEAD_BYTES = 2_048
/** How long `ls` waits for probes, and one look-up for its own. */
const LISTING_WAIT_MS = 300
const LOOKUP_WAIT_MS = 1_000
/** With more than this many waiting, a look-up goes on with the guess. */
const CROWD = 8
/** A listing begins no more probes than this; the next one goes on with the rest. */
const LISTING_PROBES = 64
/** A bag that could not be probed is a file for this long. */
const RETRY_MS = 60_000
/** Records of a listing between two looks at the clock. */
const RECORDS_PER_LOOK = 64
const IN_DOUBT = new DriveError('bad-answer', 'What came may not be the content.')
/** How long a kernel trusts what it was told of a file, and a little more. */
const TRUSTED_MS = 1_100

/**
 * Whether a bag is a file or a folder, which its record does not say: what is known,
 * else the head of its download. Until that is here it counts as a file.
 */
export class Kinds {
  readonly #deps: KindsDeps
  /** Probes under way or waiting, by bag; each removes itself. */
  readonly #probes = new Map<BagId, Promise<void>>()
  /** Bags whose probe failed or left doubts, why, and when it is tried again; bounded by the listing. */
  readonly #failed = new Map<BagId, { readonly untilMs: number; readonly error: unknown }>()
  /** Bags that showed as the other kind, and until when a kernel may go by that; bounded by the listing. */
  readonly #corrected = new Map<BagId, number>()
  /**
   * Records NAME.zip of folders' zips, while nothing tells whether the service calls folders so: a
   * folder's zip may have been stored as a file.
   */
  readonly #undecided = new Set<BagId>()
  readonly #queue = new PQueue({ concurrency: PROBES })
  readonly #abort = makeClosing()

  constructor(deps: KindsDeps) {
    this.#deps = deps
  }

  /** True for an entry that is known to be a folder. */
  isFolder(entry: Entry | undefined): boolean {
    if (entry === undefined) return false
    if (entry.kind === 'pending') return entry.intent.isFolder === true
    return this.#deps.facts.get(entry.record.bagId)?.kind === 'folder'
  }

  /**
   * As what an entry shows, or a file that is being written; undefined while that is to be learned, or
   * was a moment ago: the kernel must not be told one thing by `ls` and remember another of `stat`.
   */
  shown(entry: Entry | undefined): 'file' | 'directory' | SpecialKind | undefined {
    const corrected = entry?.kind === 'bag' ? this.#corrected.get(entry.record.bagId) : undefined
    if (corrected !== undefined && corrected > this.#deps.clock.now()) return undefined
    if (entry?.kind === 'pending' && entry.intent.special !== undefined) {
      return entry.intent.special.kind
    }
    if (this.isFolder(entry)) return 'directory'
    return this.isLearned(entry) ? 'file' : undefined
  }

  /** What a bag is from now on. */
  set(bagId: BagId, kind: BagKind): void {
    const { facts, clock } = this.#deps
    if ((facts.get(bagId)?.kind ?? 'file') !== kind) {
      this.#corrected.set(bagId, clock.now() + TRUSTED_MS)
    }
    facts.learn(bagId, { kind })
  }

  /** True when `learnSoon` would have nothing to wait for. */
  isLearned(entry: Entry | undefined): boolean {
    return entry?.kind !== 'bag' || !this.#isToLearn(entry.record)
  }

  /** Learns the kind of one entry, waiting a bounded time. */
  async learnSoon(entry: Entry | undefined): Promise<void> {
    if (entry?.kind !== 'bag') return
    const probe = this.#probe(entry.record)
    if (probe === undefined || this.#probes.size > CROWD) return
    await this.#wait([probe], LOOKUP_WAIT_MS)
  }

  /**
   * Learns the kind of one entry before it is changed, however long that takes: a folder that still
   * counts as a file must not be written over, or stored again as one. Rejects with what was in the way.
   */
  async learnForChange(entry: Entry | undefined): Promise<void> {
    if (entry?.kind !== 'bag') return
    const { bagId } = entry.record
    this.#failed.delete(bagId)
    await this.#probe(entry.record)
    if (this.#failed.get(bagId)?.error === IN_DOUBT) {
      this.#failed.delete(bagId)
      await this.#probe(entry.record, true)
    }
    const failure = this.#failed.get(bagId)
    // Content that is gone at the service is neither, and its kind will never be known.
    if (failure === undefined || isDriveError(failure.error, 'gone')) return
    const isUnlikely = isZipName(entry.record.name) && this.#deps.folderNames.get() !== 'zipped'
    if (!isUnlikely) throw failure.error
  }

  /** Begins to learn the kinds of all entries, and waits a small bounded time. */
  async learnAll(tree: Tree): Promise<void> {
    const probes: Promise<void>[] = []
    for (const entry of tree.entries()) {
      if (this.#probes.size >= LISTING_PROBES) break
      const probe = entry.kind === 'bag' ? this.#probe(entry.record) : undefined
      if (probe !== undefined) probes.push(probe)
    }
    if (probes.length > 0) await this.#wait(probes, LISTING_WAIT_MS)
  }

  /** What the records of our own folders tell of all others, if there are any. */
  learnNames(names: FolderNaming | undefined): void {
    if (names === undefined) return
    this.#deps.folderNames.learn(names)
    const undecided = [...this.#undecided]
    this.#undecided.clear()
    // Where folders are listed as NAME, NAME.zip is a file.
    if (names === 'plain') return
    for (const bagId of undecided) this.set(bagId, 'folder')
  }

  /** Probes that wait fail at once, as those under way do. */
  close(): void {
    this.#abort.abort()
  }

  /** Undefined when nothing is to be learned. */
  #probe(record: BagRecord, mustBeSure = false): Promise<void> | undefined {
    const { bagId } = record
    if (!this.#isToLearn(record)) return undefined
    let probe = this.#probes.get(bagId)
    if (probe === undefined) {
      probe = this.#learn(record, mustBeSure).finally(() => this.#probes.delete(bagId))
      this.#probes.set(bagId, probe)
    }
    return probe
  }

  #isToLearn({ bagId, name }: BagRecord): boolean {
    if (this.#deps.facts.get(bagId)?.kind !== undefined) return false
    if (kindFromName(name) !== undefined && !this.#mayBeZipped(name)) return false
    if (this.#undecided.has(bagId)) return false
    return (this.#failed.get(bagId)?.untilMs ?? 0) <= this.#deps.clock.now()
  }

  #mayBeZipped(name: string): boolean {
    return isZipName(name) && this.#deps.folderNames.get() !== 'plain'
  }

  async #learn(record: BagRecord, mustBeSure: boolean): Promise<void> {
    await this.#queue.add(() => this.#look(record, mustBeSure))
    const others = await this.#decide()
    if (this.#undecided.has(record.bagId)) await Promise.all(others)
  }

  async #look(record: BagRecord, mustBeSure: boolean): Promise<void> {
    const { bagId } = record
    try {
      const { signal } = this.#abort
      const head = await this.#deps.cache.head(bagId, HEAD_BYTES, { signal, mustBeSure })
      this.#failed.delete(bagId)
      this.#take(record, head)
    } catch (error) {
      this.#failed.set(bagId, { untilMs: this.#deps.clock.now() + RETRY_MS, error })
      this.#deps.log.debug({ bagId, error: String(error) }, 'The kind of a bag is not known yet.')
    }
  }

  #take(record: BagRecord, { bytes, contentType, fileName, isSure }: BagHead): void {
    const { bagId, name } = record
    const { folderNames } = this.#deps
    if (isOwnFolder(bytes) && folderNames.get() === undefined) {
      if (isZipName(name)) {
        this.#undecided.add(bagId)
        return
      }
      // A folder is only ever sent as NAME.zip: a service that lists it without takes that off.
      this.learnNames('plain')
    }
    const head = { bytes, contentType, fileName, recordName: name }
    const kind = kindFromHead(head, folderNames.get())
    // What is no zip may be no content either.
    const isDoubtful = kind === 'file' && !(isZipName(name) && looksLikeZip(bytes))
    if (isDoubtful && !isSure) throw IN_DOUBT
    this.set(bagId, kind)
  }

  /**
   * Where folders' zips are found as NAME.zip and none as NAME, the service calls folders so. Looks at the
   * other records first, and answers what is to be waited for.
   */
  async #decide(): Promise<readonly Promise<void>[]> {
    if (!this.#mustDecide()) return []
    const { isOwn, others } = await inTurns(this.#findPlain(), RECORDS_PER_LOOK)
    if (!this.#mustDecide()) return []
    if (isOwn) {
      this.learnNames('plain')
      return []
    }
    if (others.length === 0) this.learnNames('zipped')
    return others.flatMap((record) => this.#probe(record) ?? [])
  }

  #mustDecide(): boolean {
    return this.#undecided.size > 0 && this.#deps.folderNames.get() === undefined
  }

  /** Whether a folder of ours is listed as NAME, and records without `.zip` that may tell more. */
  *#findPlain(): Generator<undefined, { isOwn: boolean; others: readonly BagRecord[] }> {
    const others: BagRecord[] = []
    for (const record of this.#deps.listing.current()?.records ?? []) {
      yield
      if (isZipName(record.name)) continue
      if (this.#isOwn(record)) return { isOwn: true, others }
      if (others.length < LISTING_PROBES && this.#isToLearn(record)) others.push(record)
    }
    return { isOwn: false, others }
  }

  /** True for a folder that was uploaded here: only of such content the SHA-256 is known. */
  #isOwn({ bagId }: BagRecord): boolean {
    const { kind, sha256 } = this.#deps.facts.get(bagId) ?? {}
    return kind === 'folder' && sha256 !== undefined
  }

  async #wait(probes: readonly Promise<void>[], ms: number): Promise<void> {
    const enough = new AbortController()
    const pause = this.#deps.clock.sleep(ms, enough.signal).catch(() => undefined)
    await Promise.race([Promise.all(probes), pause])
    enough.abort()
  }
}
