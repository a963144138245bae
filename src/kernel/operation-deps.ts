import type { Drive } from '../drive/drive.ts'
import type { BridgeSettings } from './bridge.ts'
import type { Parting } from './parting.ts'
import type { Paths } from './paths.ts'
import type { Replies } from './replies.ts'

/** What the operations of a path-based bridge work with. */
export interface OperationDeps {
  readonly drive: Drive
  readonly paths: Paths
  readonly parting: Parting
  readonly replies: Replies
  readonly settings: BridgeSettings
}
