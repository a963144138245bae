import { arch, release, type } from 'node:os'
import type { Environment } from '../../config/env.ts'
import { withDefault, type MountFlags } from '../../config/options.ts'
import { chooseBridge, loadNativeLibrary } from '../../kernel/create-bridge.ts'
import { listFuseRequirements } from '../../mount/fuse-requirements.ts'
import { fuseRequirementsOf } from '../../mount/prepare-mount.ts'
import { runCheck, type Check, type Finding } from './check.ts'

/** The first Linux that has version 7.31 of the FUSE protocol by itself; those of distributions may have it earlier. */
const OLDEST_KERNEL = [5, 2] as const

/** The first Linux that lets a file system have files read by the kernel itself. */
const OLDEST_PASSTHROUGH = [6, 9] as const

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
    runCheck('passthrough', () =>
      Promise.resolve(
        describePassthrough({
          ...{ bridge, release: release(), isRoot: process.geteuid?.() === 0 },
          asked: withDefault(options, 'passthrough'),
        }),
      ),
    ),
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
  if (isAtLeast(OLDEST_KERNEL, system.release)) return says
  return {
    state: 'warning',
    says: `${says}: it may be too old for the bridge dev-fuse.`,
    mend: 'If mount says so: bagfs mount --bridge fuse-native MOUNTPOINT',
  }
}

function isAtLeast(oldest: readonly [number, number], version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10))
  return major > oldest[0] || (major === oldest[0] && minor >= oldest[1])
}

/** Whether the kernel would read cached files by itself. No drive needs it. Exported for its test. */
export function describePassthrough(system: {
  readonly bridge: string
  readonly release: string
  readonly isRoot: boolean
  readonly asked: 'auto' | 'off'
}): string {
  if (system.asked === 'off') return 'off, as asked for'
  if (system.bridge !== 'dev-fuse') return 'none: only --bridge dev-fuse has it'
  if (!isAtLeast(OLDEST_PASSTHROUGH, system.release)) return 'none: it comes with Linux 6.9'
  if (!system.isRoot) return 'none: only root may have it'
  return 'for drives that are mounted with --read-only'
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
