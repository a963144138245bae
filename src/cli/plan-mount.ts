import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Environment } from '../config/env.ts'
import type { MountFlags } from '../config/options.ts'
import { withDefault } from '../config/options.ts'
import { findDefaultPaths } from '../config/paths.ts'
import { DriveError } from '../domain/errors.ts'
import { refuseOpenPath } from '../disk/open-path.ts'
import type { BridgeKind } from '../kernel/bridge.ts'
import { chooseBridge } from '../kernel/create-bridge.ts'
import { chooseAccount } from './account.ts'
import type { CommandContext } from './context.ts'
import { checkFuse } from './fuse-requirements.ts'
import { keepLocalToken } from './local-token.ts'
import type { MountJob, ServiceChoice } from './mount-job.ts'
import { checkMountpoint } from './mountpoint.ts'

/** Turns flags, environment and defaults into a mount, and refuses one that cannot work before anything is started. */
export async function planMount(
  context: CommandContext,
  mountpoint: string,
  flags: MountFlags,
): Promise<MountJob> {
  refuseContradictions(flags)
  const user = currentUser()
  const bridge = await chooseBridge(withDefault(flags, 'bridge'))
  await checkRequirements(context.environment, flags, { uid: user.uid, bridge })
  const paths = findDefaultPaths()
  const stateDir = resolve(expandHome(flags.stateDir) ?? paths.stateDir)
  const dataDir = localDataDir(flags, paths.localDataDir)
  await refuseOpenPath(stateDir)
  const drive = {
    ...toDriveSettings(flags, user),
    bridge,
    stateDir,
    mountpoint: await checkMountpoint({
      path: mountpoint,
      ownDirectories: dataDir === undefined ? [stateDir] : [stateDir, dataDir],
    }),
  }
  const service = await chooseService(context, flags, dataDir)
  return {
    drive,
    service,
    log: { level: withDefault(flags, 'logLevel'), json: withDefault(flags, 'logJson') },
  }
}

function refuseContradictions(flags: MountFlags): void {
  const pairs = [
    ['local', 'url'],
    ['local', 'tokenFile'],
    ['foreground', 'background'],
    ['readOnly', 'writeBack'],
  ] as const
  for (const [one, other] of pairs) {
    if (flags[one] !== undefined && flags[other] !== undefined) {
      throw new DriveError('usage', `${asFlag(one)} and ${asFlag(other)} do not go together.`)
    }
  }
}

function asFlag(key: string): string {
  return `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

function currentUser(): { uid: number; gid: number } {
  // Node has these on every system that has FUSE.
  return { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
}

function checkRequirements(
  { searchPath }: Environment,
  flags: MountFlags,
  { uid, bridge }: { readonly uid: number; readonly bridge: BridgeKind },
): Promise<void> {
  const allowOther = withDefault(flags, 'allowOther')
  return checkFuse({ searchPath, allowOther, isRoot: uid === 0, bridge })
}

function toDriveSettings(
  flags: MountFlags,
  user: { readonly uid: number; readonly gid: number },
): Omit<MountJob['drive'], 'mountpoint' | 'stateDir' | 'bridge'> {
  return {
    cacheBytes: withDefault(flags, 'cacheSize'),
    minFreeBytes: withDefault(flags, 'minFree'),
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
  }
}

/** Directory of the embedded service's data, for a mount with `--local`. */
function localDataDir({ local }: MountFlags, defaultDir: string): string | undefined {
  if (local === undefined) return undefined
  return local === true ? defaultDir : resolve(expandHome(local) ?? local)
}

/** `--state-dir=~/x` reaches us with its tilde: shells expand it only at the start of a word. */
function expandHome(path: string | undefined): string | undefined {
  return path?.startsWith('~/') === true ? join(homedir(), path.slice(2)) : path
}

async function chooseService(
  context: CommandContext,
  flags: MountFlags,
  dataDir: string | undefined,
): Promise<ServiceChoice> {
  if (dataDir === undefined) {
    const { tokenFile } = flags
    const file = tokenFile === undefined ? {} : { tokenFile: resolve(tokenFile) }
    return { kind: 'account', ...(await chooseAccount(context, flags)), ...file }
  }
  const { token } = await keepLocalToken(dataDir, context.output.warn)
  return { kind: 'local', dataDir, token }
}
