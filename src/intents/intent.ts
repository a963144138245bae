import type { KeptAttributes, SpecialNode } from '../domain/attributes.ts'
import type { DriveErrorCode } from '../domain/errors.ts'
import type { BagId, IntentId } from '../domain/ids.ts'

/**
 * Where an intent stands.
 * - `held`: a step of a save; waits for the rename that publishes it, or for `heldUntilMs`. A delete that
 *   may be half of a replacement: a process that dies meanwhile has not promised it
 * - `local`: junk of desktops; stays on this machine
 * - `waiting`: to be sent; a put with a `bagId` was sent, and the bag is to be seen at the service
 * - `confirmed`: the service did it; kept until the listing agrees
 */
export type IntentPhase = 'held' | 'local' | 'waiting' | 'confirmed'

/** Why the last try failed, in the service's words. */
export interface IntentFailure {
  readonly code: DriveErrorCode
  readonly message: string
  readonly atMs: number
  readonly tries: number
  /** True when another try cannot help until the person does something (422, 413 ...). */
  readonly waitsForUser: boolean
}

/** Bytes in the outbox. */
interface StagedContent {
  readonly from: 'staged'
  readonly length: number
  readonly sha256: string
  /** What it takes of the local disk, in bytes; only where it has holes. */
  readonly allocated?: number
}

/**
 * Content of a put: bytes staged in the outbox, those of a bag that gets a new name, or a folder.
 * Of a folder, changes are being collected and not packed yet.
 */
export type PutContent =
  | StagedContent
  | { readonly from: 'bag'; readonly bagId: BagId; readonly length?: number }
  | { readonly from: 'folder'; readonly length?: number }

/**
 * The changes of a folder: a journal of operations on the tree of a bag, beside `intent.json`. Those
 * from `start` on are not in `base` yet.
 */
export interface FolderChanges {
  /** The bag that the changes are made to; absent for a folder that was made here. */
  readonly base?: BagId
  /** Operations of the journal that `base` has already. */
  readonly start: number
  /** Operations that the staged zip has, once it is packed. */
  readonly packed?: number
}

/** When something was done to a bag, in milliseconds since the epoch. */
export interface BagTime {
  readonly bagId: BagId
  readonly atMs: number
}

/**
 * Content that moved to another place: what it came from is deleted once it is stored there. Without `operations`
 * the whole put is meant, else so many operations of a folder's journal. What is lost there is never stored.
 */
export interface MovedTo {
  readonly id: IntentId
  readonly operations?: number
  readonly isLost?: true
}

/** An upload under a name that a put has no more, and that was not answered; its fields are as those of the put were. */
export interface LostUpload extends Pick<PutIntent, 'name' | 'description'> {
  readonly content: StagedContent
  readonly sentAtMs: number
  readonly namesakes: readonly BagId[]
}

interface IntentBase {
  readonly version: 1
  readonly id: IntentId
  /** For a put: the name as the service gets it. For a delete: the name of the removed record. */
  readonly name: string
  readonly phase: IntentPhase
  readonly createdAtMs: number
  /**
   * An id of the time at which it got its name, where other changes were made since it got its own id: then it comes
   * after them (`orderOf`).
   */
  readonly placed?: IntentId
  /** Bags that this intent takes the place of: hidden at once, deleted when it is carried out. */
  readonly replaces: readonly BagId[]
  /**
   * When those of `replaces` were uploaded, as the listing said when this change was made. A bag that was
   * uploaded again since then is another machine's, under the same id.
   */
  readonly uploaded?: readonly BagTime[]
  /** Those of `replaces` that are deleted already; they stay hidden for as long as a listing may lag. */
  readonly deleted?: readonly BagTime[]
  /** Before this is stored, no bag of `replaces` is deleted. */
  readonly after?: readonly MovedTo[]
  /** Earlier puts that this one takes the place of: hidden at once; their bags join `replaces`. */
  readonly supersedes: readonly IntentId[]
  readonly failure?: IntentFailure
  /** When the service answered an upload; the content is as old as that, however late it was proven. */
  readonly answeredAtMs?: number
  /** When the service answered, or when that was proven. */
  readonly confirmedAtMs?: number
  /** While `held`: when it is let go. */
  readonly heldUntilMs?: number
}

/** A promise that the service will have this content under this name. */
export interface PutIntent extends IntentBase, KeptAttributes {
  readonly kind: 'put'
  readonly description: string
  readonly content: PutContent
  /** True when the content is a folder's zip: it goes to `folders/upload`. */
  readonly isFolder?: boolean
  readonly changes?: FolderChanges
  /** The deleted bag that it brings back from the trash; until the service has that, the outbox is the only place of it. */
  readonly restores?: BagId
  /** SHA-256 of what it brings back, in hex. An older version did not write it. */
  readonly restoresSha256?: string
  /** A node of this machine: it stays `local`, and its content is empty. */
  readonly special?: SpecialNode
  /** When the last upload was begun: its answer may be lost, so the listing is asked before another. */
  readonly sentAtMs?: number
  /** What the service may have of it under other names: it is looked for before the put is tried, and deleted after. */
  readonly lostUploads?: readonly LostUpload[]
  /** Bags that showed under this name before, to recognise ours when an answer is lost. */
  readonly namesakes?: readonly BagId[]
  /** The new bag, once the service answered; proven to be there once the put is `confirmed`. */
  readonly bagId?: BagId
  /**
   * When `bagId` was uploaded, as the listing said right before another change of here deleted it: what the put itself has
   * left to delete is older.
   */
  readonly uploadedAtMs?: number
  /**
   * When uploads of this machine were answered that stored those of `replaces`, by its own clock. They may have ended after
   * the upload of this put began, and no listing may have had them.
   */
  readonly ownUploads?: readonly BagTime[]
  /**
   * True while a DELETE of a bag that had this id before may be under way: of another machine that replaced it, or one of
   * here that was not answered.
   */
  readonly isAtRisk?: boolean
  /**
   * When it is looked whether the bag of a confirmed put is still there: nothing is known of such a DELETE, but a bag had
   * the id before. Until the last look the content stays here, to be stored once more.
   */
  readonly lookAtMs?: number
  /** How often such a DELETE took its bag. */
  readonly timesTaken?: number
  /** How many uploads of it were answered with the id of a bag that holds something else. */
  readonly disproofs?: number
  /** True once every bag of `replaces` is deleted at the service. */
  readonly replacedAreDeleted?: boolean
}

/** A promise that the service will forget the bags in `replaces`. */
export interface DeleteIntent extends IntentBase {
  readonly kind: 'delete'
  /**
   * The content that moved, as it is, to the place that `after` names: that bag of `replaces`, or that put of `supersedes`
   * while it has no bag. What else is deleted goes to the trash, and so does this once it is not there as it came.
   */
  readonly movesOn?: BagId | IntentId
}

export type Intent = PutIntent | DeleteIntent
