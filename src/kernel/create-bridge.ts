import { platform } from 'node:os'
import { DriveError } from '../domain/errors.ts'
import type { Bridge, BridgeDeps, BridgeKind, BridgeSettings } from './bridge.ts'

/** What `auto` means on this machine: on Linux dev-fuse, where the package that it calls C with has a binary. */
export async function chooseBridge(asked: BridgeKind | 'auto'): Promise<BridgeKind> {
  if (asked !== 'auto') return asked
  if (platform() !== 'linux') return 'fuse-native'
  const hasKoffi = await import('koffi').then(
    () => true,
    () => false,
  )
  return hasKoffi ? 'dev-fuse' : 'fuse-native'
}

/** Loads a bridge. Rejects `usage` with what to install when what it needs is missing. */
export async function createBridge(
  kind: BridgeKind,
  deps: BridgeDeps,
  settings: BridgeSettings,
): Promise<Bridge> {
  return kind === 'dev-fuse' ? createDevFuse(deps, settings) : createFuseNative(deps, settings)
}

async function createDevFuse(deps: BridgeDeps, settings: BridgeSettings): Promise<Bridge> {
  const { DevFuseBridge } = await import('./dev-fuse/dev-fuse-bridge.ts')
  return new DevFuseBridge(deps, settings)
}

async function createFuseNative(deps: BridgeDeps, settings: BridgeSettings): Promise<Bridge> {
  const { FuseNativeBridge } = await loadFuseNative()
  return new FuseNativeBridge(deps, settings)
}

/** Loads the native library that a bridge calls. Rejects `usage` as `createBridge` and the mount do. */
export async function loadNativeLibrary(kind: BridgeKind): Promise<void> {
  if (kind === 'fuse-native') {
    await loadFuseNative()
    return
  }
  const { loadLibc } = await import('./dev-fuse/libc.ts')
  await loadLibc()
}

function loadFuseNative() {
  return import('./fuse-native-bridge.ts').catch((cause: unknown) => {
    throw new DriveError('usage', 'The FUSE library cannot be loaded.', {
      cause,
      hint: 'Install it: apt-get install fuse3 libfuse2 (libfuse2t64 on newer systems).',
    })
  })
}
