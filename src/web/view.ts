/**
 * What the page shows, in words that are ready to be shown; the page itself knows nothing of drives. Texts may hold
 * anything that a name can, and are never markup.
 */
export interface PageView {
  readonly mountpoint: string
  /** `silent` is a drive whose process hangs, or is of another version. */
  readonly presence: 'here' | 'gone' | 'silent'
  readonly mood: 'good' | 'busy' | 'bad'
  readonly headline: string
  /** What to do about it. */
  readonly advice?: string
  /** Sentences that a person should know of: conflicts, folders that refused changes and the like. */
  readonly notices: readonly string[]
  readonly transfers: readonly TransferRow[]
  /** Missing where the drive does not tell. */
  readonly speed?: SpeedView
  readonly outbox: RowsView<ChangeRow>
  readonly trash: RowsView<TrashRow>
  readonly meters: readonly MeterRow[]
  readonly facts: readonly (readonly [string, string])[]
}

/** Some rows, and how many more there are. */
export interface RowsView<Row> {
  readonly rows: readonly Row[]
  readonly more: number
  readonly note: string
}

export interface TransferRow {
  readonly key: string
  readonly name: string
  readonly direction: 'up' | 'down'
  /** Missing where the length is not known. */
  readonly percent?: number
  /** `12 MB of 40 MB, 3.1 MB/s, 9 s left` */
  readonly text: string
}

export interface SpeedView {
  readonly spanS: number
  /** Seconds ago, and bytes per second up and down, the oldest first. */
  readonly points: readonly (readonly [number, number, number])[]
  /** Bytes per second at the upper edge of the chart. */
  readonly scale: number
  readonly scaleText: string
  readonly upText: string
  readonly downText: string
  /** The chart in a sentence. */
  readonly summary: string
}

export interface ChangeRow {
  readonly id: string
  readonly name: string
  readonly kind: 'put' | 'delete'
  readonly what: string
  readonly state: string
  readonly tone: 'usual' | 'failed' | 'stuck'
  readonly canRetry: boolean
  readonly canDiscard: boolean
}

export interface TrashRow {
  readonly id: string
  readonly name: string
  readonly isFolder: boolean
  readonly text: string
}

export interface MeterRow {
  readonly label: string
  readonly text: string
  /** 0 to 1. */
  readonly share: number
  readonly isFull: boolean
}

/** Why something was not done. */
export interface PageRefusal {
  readonly code: string
  readonly message: string
  readonly hint?: string
}

/** The answer to an action: what was done in a sentence, and how things are after it. */
export interface PageDone {
  readonly said: string
  readonly view: PageView
}
