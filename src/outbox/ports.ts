import type { Clock } from '../domain/clock.ts'
import type { BagId, IntentId } from '../domain/ids.ts'
import type { PutIntent } from '../intents/intent.ts'
import type { Zip } from '../intents/rounds.ts'
import type { Logger } from '../domain/logger.ts'
import type { BagRecord, FactsAccess } from '../domain/record.ts'
import type { StorageService } from '../service/storage-service.ts'
import type { Keeper } from '../trash/keeper.ts'
import type { Jobs } from './jobs.ts'
import type { Outbox } from './outbox.ts'
import type { StepListener } from './steps.ts'

/** An answer of the service, as far as the uploader reads it. */
export interface KnownListing {
  readonly index: {
    recordsOf(bagId: BagId): readonly Pick<BagRecord, 'name' | 'uploadedAtMs' | 'description'>[]
  }
  /** When its request was begun. */
  readonly startedAtMs: number
}

/** The same with all that is in it. */
export interface KnownRecords extends KnownListing {
  readonly records: readonly BagRecord[]
}

/** What the uploader needs of the listing. */
export interface ListingPort {
  /** Asks the service now: the answer was begun after this call. `startedAtMs` is when. */
  refreshNow(signal?: AbortSignal): Promise<KnownRecords>
  /** The last answer, if there was one. */
  current(): KnownRecords | undefined
}

/** What the uploader needs of the bag cache. */
export interface ContentPort {
  /** Moves a finished file into the cache as the content of a bag. */
  adopt(bagId: BagId, path: string, length: number): Promise<void>
  /** Writes the whole content of a bag to a new file; resolves with its length in bytes. */
  copyTo(bagId: BagId, path: string, options?: { signal?: AbortSignal }): Promise<number>
  /**
   * Whether the whole content of a bag, which need not fit on the disk, has that length and SHA-256. Where the service
   * just vouched for it and it has not, the next question asks the service anew.
   */
  holds(
    bagId: BagId,
    expected: { readonly length: number; readonly sha256: string },
    options?: { signal?: AbortSignal; isVouched?: boolean },
  ): Promise<boolean>
}

/** The zip of a folder. */
export interface PackedFolder extends Zip {
  /** Of a zip that is not kept on this machine. */
  readonly pieces?: () => AsyncGenerator<Uint8Array>
}

export interface PackOptions {
  readonly signal: AbortSignal
  /** True when this machine has no room for the zip: nothing is written, and `pieces` makes it each time it is sent. */
  readonly isStraight?: boolean
}

/** What the uploader needs of folders. */
export interface FolderPort {
  /**
   * Packs the changes of a folder into a zip at `path`. Resolves with its length in bytes, SHA-256,
   * how many changes are in it, and the folder's own time. Undefined when nothing is in the folder:
   * then it stays on this machine, and the intent says so already.
   */
  pack(put: PutIntent, path: string, options: PackOptions): Promise<PackedFolder | undefined>
  /**
   * Told when the zip is stored as a bag and the old one is deleted. True when the folder changed
   * since it was packed: the intent collects changes to the new bag then.
   */
  committed(put: PutIntent, bagId: BagId): Promise<boolean>
}

/** What the uploader needs of the trash. */
export type TrashPort = Pick<Keeper, 'whileFetched' | 'keep' | 'noteNotKept'>

export interface UploaderDeps {
  readonly jobs: Jobs
  readonly outbox: Outbox
  readonly service: Pick<
    StorageService,
    'uploadFile' | 'uploadFolder' | 'deleteBag' | 'download' | 'getAccount'
  >
  readonly listing: ListingPort
  readonly content: ContentPort
  readonly facts: FactsAccess
  readonly folders: FolderPort
  readonly trash: TrashPort
  /** True when an entry of the drive shows this bag: it must not be deleted. */
  readonly isShown: (bagId: BagId) => boolean
  readonly clock: Clock
  readonly log: Logger
  readonly onStep?: StepListener
}

export interface UploaderSettings {
  /** Changes carried out at the same time. */
  readonly concurrency: number
  /** First wait after a failure; doubles, with full jitter, up to `retryMaxMs`. */
  readonly retryBaseMs: number
  readonly retryMaxMs: number
  /** How long the service may take to list what it has taken. */
  readonly listingLagMs: number
  /** So long after another machine looked at the listing it may delete a bag that it takes to be its own. */
  readonly deletingMs: number
  /** Whether steps must survive a power cut, a second later; without it, only a kill of the process. */
  readonly durable: boolean
}

/** What one try of an intent has at hand. */
export interface Try {
  readonly id: IntentId
  readonly signal: AbortSignal
  /** True when an earlier upload of this put may have arrived without us knowing. */
  readonly mayHaveArrived: boolean
  readonly onProgress: (sentBytes: number) => void
  /** Called when the service may have the content without us knowing. */
  readonly onAnswerLost: () => void
  /** Called once the service has the content; what follows is cleaning up. */
  readonly onConfirmed: () => void
  /** Called when what is left to do waits for the local disk, or for time to pass: another upload may begin. */
  readonly onResting: () => void
}
