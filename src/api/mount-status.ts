/** An error of a while ago. */
export interface StatusError {
  /** As `DriveError.code`. */
  readonly code: string
  readonly message: string
  /** When it came, in milliseconds since the epoch. */
  readonly atMs: number
}

/** An upload under way. */
export interface UploadUnderWay {
  readonly name: string
  readonly sentBytes: number
  readonly totalBytes: number
}

/** A download under way. `totalBytes` is there once it is known. */
export interface DownloadUnderWay {
  readonly bagId: string
  readonly name?: string
  readonly receivedBytes: number
  readonly totalBytes?: number
}

/** A change that the service does not have, or has not confirmed. */
export interface WaitingChange {
  readonly id: string
  readonly name: string
  readonly kind: 'put' | 'delete'
  /** `held` waits for something here, `local` is never sent, and of `confirmed` an old version may still be there. */
  readonly phase: 'held' | 'local' | 'waiting' | 'confirmed'
  /** In plain words. */
  readonly state: string
  readonly bytes?: number
  /** Its last try. With `waitsForUser` there is no other before something changes. */
  readonly failure?: StatusError & { readonly tries: number; readonly waitsForUser: boolean }
  readonly nextTryAtMs?: number
}

/** How a drive is: the part of `bagfs status --json` that programs can rely on. */
export interface MountStatus {
  readonly mountpoint: string
  /** URL of the service. */
  readonly service: string
  /** Id of the account. */
  readonly account: string
  readonly mode: 'through' | 'back' | 'read-only'
  /** `ageMs` is null while there is none; `lastError` is there while it cannot be had. */
  readonly listing: {
    readonly ageMs: number | null
    readonly records: number
    readonly lastError?: StatusError
  }
  readonly cache: { readonly bytes: number; readonly maxBytes: number; readonly bags: number }
  readonly uploads: readonly UploadUnderWay[]
  readonly downloads: readonly DownloadUnderWay[]
  readonly outbox: readonly WaitingChange[]
  /** Directories of changes that could not be read and were set aside. */
  readonly damaged: readonly string[]
}
