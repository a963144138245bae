import type { Environment } from '../config/env.ts'
import type { MountFlags } from '../config/options.ts'
import { withDefault } from '../config/options.ts'
import { refuseOpenPath } from '../disk/open-path.ts'
import type { BridgeKind } from '../kernel/bridge.ts'
import { chooseBridge } from '../kernel/create-bridge.ts'
import { chooseService, type ServiceOptions } from './account.ts'
import { localDataDir, stateDirOf } from './drive-dirs.ts'
import type { CommandContext } from './context.ts'
import { checkFuse, type FuseRequirements } from './fuse-requirements.ts'
import type { MountJob } from './mount-job.ts'
import { checkMountpoint, type MountpointSettings } from './mountpoint.ts'

/** Turns the options that were chosen, and defaults, into a mount, and refuses one that cannot work before anything is started. */
export async function planMount(
  context: CommandContext,
  mountpoint: string,
  chosen: ServiceOptions,
  mayMake: MountpointSettings['mayMake'] = () => Promise.resolve(false),
): Promise<MountJob> {
  const { options } = chosen
  const profile = accountName(chosen)
  const user = currentUser()
  const bridge = await chooseBridge(withDefault(options, 'bridge'))
  await checkFuse(fuseRequirementsOf(context.environment, options, bridge))
  const stateDir = stateDirOf(options)
  const dataDir = localDataDir(options)
  await refuseOpenPath(stateDir)
  const drive = {
    ...toDriveSettings(options, user),
    bridge,
    stateDir,
    ...(profile === undefined ? {} : { profile }),
    mountpoint: await checkMountpoint({
      path: mountpoint,
      mayMake,
      ownDirectories: dataDir === undefined ? [stateDir] : [stateDir, dataDir],
    }),
  }
  const service = await chooseService(context.output.warn, chosen)
  return {
    drive,
    service,
    log: { level: withDefault(options, 'logLevel'), json: withDefault(options, 'logJson') },
  }
}

/** The profile that the account is of; undefined where a flag or the environment names another one. */
function accountName({ origins = {} }: ServiceOptions): string | undefined {
  const origin = origins.url ?? origins.local
  return origin?.from === 'profile' ? origin.profile : undefined
}

function currentUser(): { uid: number; gid: number } {
  // Node has these on every system that has FUSE.
  return { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
}

/** What a mount with these options needs of the machine. */
export function fuseRequirementsOf(
  { searchPath }: Environment,
  flags: MountFlags,
  bridge: BridgeKind,
): FuseRequirements {
  const allowOther = withDefault(flags, 'allowOther')
  return { searchPath, allowOther, isRoot: currentUser().uid === 0, bridge }
}

function toDriveSettings(
  flags: MountFlags,
  user: { readonly uid: number; readonly gid: number },
): Omit<MountJob['drive'], 'mountpoint' | 'stateDir' | 'bridge'> {
  return {
    cacheBytes: withDefault(flags, 'cacheSize'),
    minFreeBytes: withDefault(flags, 'minFree'),
    keepDeletedMs: withDefault(flags, 'keepDeleted'),
    listingTtlMs: withDefault(flags, 'listingTtl'),
    listingLagMs: withDefault(flags, 'listingLag'),
    folderSettleMs: withDefault(flags, 'folderSettle'),
    timeoutMs: withDefault(flags, 'timeout'),
    writeBack: withDefault(flags, 'writeBack'),
    readOnly: withDefault(flags, 'readOnly'),
    allowOther: withDefault(flags, 'allowOther'),
    uid: flags.uid ?? user.uid,
    gid: flags.gid ?? user.gid,
    umask: withDefault(flags, 'umask'),
    description: flags.description ?? '',
    ...(flags.metrics === undefined ? {} : { metrics: flags.metrics }),
  }
}
