/** Bytes of an open file of the local disk. */
export interface DiskSpan {
  readonly fd: number
  readonly offset: number
  readonly length: number
}

/**
 * Gives an open file of the local disk, from an offset on, the blocks that bytes of another one are in: nothing is copied until
 * one of them changes. False where the disk cannot do so; what was there may have changed then.
 */
export type ShareRange = (from: DiskSpan, to: Omit<DiskSpan, 'length'>) => boolean
