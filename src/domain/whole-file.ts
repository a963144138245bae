import type { BagId } from './ids.ts'

/** All of a bag's content, checked, in one file of the local disk that does not change any more. */
export interface WholeFile {
  readonly bagId: BagId
  /** Another one when what was here turned out to be wrong. */
  readonly generation: number
  /** Open for as long as what told it is. */
  readonly fd: number
}
