/** The JSON of the service as docs/SERVICE.md writes it. */

/** An element of `files_list`. */
export interface FileRecordWire {
  readonly filename: string
  readonly size: number
  /** Unix seconds, with a fraction. */
  readonly uploaded_at: number
  readonly description: string
  readonly bag_id: string
}

/** The answer of `/api/user`. Sizes in bytes. */
export interface UserWire {
  readonly uid: string
  readonly space_left: number
  readonly capacity: number
}

export interface UploadedWire {
  readonly bag_id: string
}

export interface AddedWire {
  readonly message: string
}

export interface DeletedWire {
  readonly success: boolean
}

/** One problem of an error body. */
export interface ProblemWire {
  readonly loc: readonly string[]
  readonly msg: string
  readonly type: string
}

export interface ErrorWire {
  readonly detail: readonly ProblemWire[]
}
