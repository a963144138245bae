import { DriveError } from '../domain/errors.ts'
import type { Bridge, BridgeDeps, BridgeSettings } from './bridge.ts'

/** Loads the bridge of this machine. Rejects `usage` with what to install when libfuse is missing. */
export async function createBridge(deps: BridgeDeps, settings: BridgeSettings): Promise<Bridge> {
  const { FuseNativeBridge } = await import('./fuse-native-bridge.ts').catch((cause: unknown) => {
    throw new DriveError('usage', 'The FUSE library cannot be loaded.', {
      cause,
      hint: 'Install it: apt-get install fuse3 libfuse2 (libfuse2t64 on newer systems).',
    })
  })
  return new FuseNativeBridge(deps, settings)
}
