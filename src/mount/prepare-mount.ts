import type { Environment } from '../config/env.ts'
import type { MountSettings } from '../config/mount-settings.ts'
import { withDefault, type MountFlags } from '../config/options.ts'
import { refuseOpenPath } from '../disk/open-path.ts'
import type { BridgeKind } from '../kernel/bridge.ts'
import { chooseBridge } from '../kernel/create-bridge.ts'
import { checkFuse, type FuseRequirements } from './fuse-requirements.ts'
import { checkMountpoint, type MountpointSettings } from './mountpoint.ts'

/** All that a mount is told, but for its service. */
export type PreparedMount = Omit<MountSettings, 'url' | 'token' | 'tokenPlace' | 'serviceKey'>

/** A mount as it is asked for. */
export interface WantedMount extends Pick<MountpointSettings, 'mayMake'> {
  /** As the person typed it. */
  readonly mountpoint: string
  readonly options: MountFlags
  /** Absolute path of the root of the state directories. */
  readonly stateDir: string
  /** Other directories of bagfs that the drive must not hide. Absolute. */
  readonly dataDirs?: readonly string[]
}

/** Turns options and defaults into a mount, and refuses one that cannot work before anything is started. */
export async function prepareMount(
  { searchPath }: Pick<Environment, 'searchPath'>,
  { mountpoint, options, stateDir, dataDirs = [], ...asked }: WantedMount,
): Promise<PreparedMount> {
  const bridge = await chooseBridge(withDefault(options, 'bridge'))
  await checkFuse(fuseRequirementsOf({ searchPath }, options, bridge))
  await refuseOpenPath(stateDir)
  const ownDirectories = [stateDir, ...dataDirs]
  return {
    ...toDriveSettings(options),
    bridge,
    stateDir,
    mountpoint: await checkMountpoint({ path: mountpoint, ...asked, ownDirectories }),
  }
}

/** What a mount with these options needs of the machine. */
export function fuseRequirementsOf(
  { searchPath }: Pick<Environment, 'searchPath'>,
  flags: MountFlags,
  bridge: BridgeKind,
): FuseRequirements {
  const allowOther = withDefault(flags, 'allowOther')
  return { searchPath, allowOther, isRoot: currentUser().uid === 0, bridge }
}

function currentUser(): { uid: number; gid: number } {
  // Node has these on every system that has FUSE.
  return { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
}

function toDriveSettings(
  flags: MountFlags,
): Omit<PreparedMount, 'mountpoint' | 'stateDir' | 'bridge'> {
  const user = currentUser()
  return {
    cacheBytes: withDefault(flags, 'cacheSize'),
    minFreeBytes: withDefault(flags, 'minFree'),
    thumbnailBytes: withDefault(flags, 'thumbnails'),
    keepDeletedMs: withDefault(flags, 'keepDeleted'),
    fetchDeletedBytes: withDefault(flags, 'fetchDeleted'),
    listingTtlMs: withDefault(flags, 'listingTtl'),
    listingLagMs: withDefault(flags, 'listingLag'),
    folderRestMs: withDefault(flags, 'folderSettle'),
    timeoutMs: withDefault(flags, 'timeout'),
    writeBack: withDefault(flags, 'writeBack'),
    readOnly: withDefault(flags, 'readOnly'),
    allowOther: withDefault(flags, 'allowOther'),
    passthrough: withDefault(flags, 'passthrough'),
    uid: flags.uid ?? user.uid,
    gid: flags.gid ?? user.gid,
    umask: withDefault(flags, 'umask'),
    description: flags.description ?? '',
    ...(flags.metrics === undefined ? {} : { metrics: flags.metrics }),
  }
}
