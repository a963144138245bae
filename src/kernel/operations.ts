import type Fuse from 'fuse-native'
import type { Drive } from '../drive/drive.ts'
import type { BridgeSettings } from './bridge.ts'
import { extendedOperations } from './extended-operations.ts'
import { fileOperations } from './file-operations.ts'
import { nameOperations } from './name-operations.ts'
import { Paths } from './paths.ts'
import type { Replies } from './replies.ts'
import type { OperationDeps } from './operation-deps.ts'
import { statOperations } from './stat-operations.ts'

/** The operations that fuse-native calls, each a few lines over the drive. */
export function fuseOperations(
  drive: Drive,
  replies: Replies,
  settings: BridgeSettings,
): Partial<Fuse.Operations> {
  const deps: OperationDeps = { drive, replies, settings, paths: new Paths(drive) }
  return {
    ...statOperations(deps),
    ...fileOperations(deps),
    ...nameOperations(deps),
    ...extendedOperations(deps),
  }
}
