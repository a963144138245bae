import type { Drive } from '../../drive/drive.ts'
import type { Clock } from '../../domain/clock.ts'
import type { Logger } from '../../domain/logger.ts'
import type { BridgeSettings } from '../bridge.ts'
import type { ShareRange } from '../../drive/tree/share-range.ts'
import type { OpenDescriptors } from '../open-descriptors.ts'
import type { KernelAnswer } from './answer.ts'
import type { DirectoryHandles } from './directory-handles.ts'
import type { SeekExtent } from './libc.ts'
import type { NodeIds } from './node-ids.ts'
import type { Lookups } from './lookups.ts'
import type { Notices } from './notices.ts'
import type { OpcodeName } from './opcodes.ts'
import type { OpenHandles } from './open-handles.ts'
import type { ReadBuffers } from './read-buffers.ts'
import type { Passthrough } from './passthrough.ts'
import type { KernelRequest } from './request.ts'
import type { KernelTrust } from './trust.ts'

/** What the operations of a session work with. */
export interface SessionContext {
  readonly drive: Drive
  readonly log: Logger
  readonly settings: BridgeSettings
  readonly lookups: Lookups
  readonly ids: NodeIds
  readonly handles: OpenHandles
  readonly passthrough: Passthrough
  readonly directories: DirectoryHandles
  readonly notices: Notices
  readonly trust: KernelTrust
  readonly buffers: ReadBuffers
  readonly descriptors: OpenDescriptors
  readonly clock: Clock
  readonly seek: SeekExtent
  readonly share: ShareRange
}

/** Does what a request asks. It takes the body apart before it returns; an error becomes an errno. */
export type KernelOperation = (request: KernelRequest) => KernelAnswer | Promise<KernelAnswer>

export type Operations = Partial<Record<OpcodeName, KernelOperation>>
