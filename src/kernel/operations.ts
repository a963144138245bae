import type Fuse from 'fuse-native'
import type { BridgeDeps, BridgeSettings } from './bridge.ts'
import { extendedOperations } from './extended-operations.ts'
import { fileOperations } from './file-operations.ts'
import { nameOperations } from './name-operations.ts'
import { Parting } from './parting.ts'
import { Paths } from './paths.ts'
import type { Replies } from './replies.ts'
import type { OperationDeps } from './operation-deps.ts'
import { statOperations } from './stat-operations.ts'

/** The operations that fuse-native calls, each a few lines over the drive. */
export function fuseOperations(
  { drive, log }: BridgeDeps,
  replies: Replies,
  settings: BridgeSettings,
): Partial<Fuse.PathHandlers> {
  const paths = new Paths(drive)
  const { mountpoint } = settings
  const parting = new Parting({ drive, paths, log, mountpoint })
  const deps: OperationDeps = { drive, replies, settings, paths, parting }
  return {
    ...statOperations(deps),
    ...fileOperations(deps),
    ...nameOperations(deps),
    ...extendedOperations(deps),
  }
}
