import { arch, release, type } from 'node:os'
import type { Environment } from '../../config/env.ts'
import { withDefault, type MountFlags } from '../../config/options.ts'
import { chooseBridge, loadNativeLibrary } from '../../kernel/create-bridge.ts'
import { listFuseRequirements } from '../../mount/fuse-requirements.ts'
import { fuseRequirementsOf } from '../../mount/prepare-mount.ts'
import { runCheck, type Check, type Finding } from './check.ts'

/** The first Linux that has version 7.31 of the FUSE protocol by itself; those of distributions may have it earlier. */
const OLDEST_KERNEL = [5, 2] as const

/** Kernel, bridge, and what these need. */
export async function checkMachine(
  environment: Environment,
  options: MountFlags,
): Promise<readonly Check[]> {
  const asked = withDefault(options, 'bridge')
  const bridge = await chooseBridge(asked)
  const requirements = listFuseRequirements(fuseRequirementsOf(environment, options, bridge))
  const library = bridge === 'dev-fuse' ? 'koffi' : 'fuse-native'
  return Promise.all([
    runCheck('kernel', () =>
      Promise.resolve(describeKernel({ name: type(), release: release(), arch: arch() })),
    ),
    runCheck('bridge', () => Promise.resolve(describeBridge(bridge, asked))),
    ...requirements.map(({ name, require }) => runCheck(name, require)),
    runCheck('native library', async () => {
      await loadNativeLibrary(bridge)
      return `${library} can be loaded`
    }),
  ])
}

/** Exported for its test. */
export function describeKernel(system: {
  readonly name: string
  readonly release: string
  readonly arch: string
}): Finding {
  const says = `${system.name} ${system.release}, ${system.arch}, Node.js ${process.versions.node}`
  if (system.name !== 'Linux') {
    return { state: 'warning', says: `${says}: bagfs is tested on Linux only.` }
  }
  const [major = 0, minor = 0] = system.release.split('.').map((part) => Number.parseInt(part, 10))
  const [oldestMajor, oldestMinor] = OLDEST_KERNEL
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return says
  return {
    state: 'warning',
    says: `${says}: it may be too old for the bridge dev-fuse.`,
    mend: 'If mount says so: bagfs mount --bridge fuse-native MOUNTPOINT',
  }
}

function describeBridge(bridge: string, asked: string): Finding {
  if (asked !== 'auto') return `${bridge}, as asked for`
  if (bridge === 'dev-fuse') return 'dev-fuse'
  return {
    state: 'warning',
    says: `${bridge}: the npm package koffi, by which dev-fuse calls C, has no binary for this machine.`,
    mend: 'Install bagfs again, with its optional packages: npm install --include=optional',
  }
}
