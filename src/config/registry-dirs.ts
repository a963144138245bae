import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { findDefaultPaths } from './paths.ts'
import { findRuntimeDir } from './runtime-dir.ts'

/**
 * Where the drives of this user on this machine are known, the usual place first. It is the same one for a drive that
 * was mounted at boot, where there is no `XDG_RUNTIME_DIR`, and for the commands of a session. The other one is for
 * drives that cannot write there.
 */
export function findRegistryDirs(): readonly string[] {
  return [join(findDefaultPaths().stateDir, 'drives', machineName()), findRuntimeDir()]
}

/** A home may be shared by several machines. */
function machineName(): string {
  return createHash('sha256').update(machineId()).digest('hex').slice(0, 12)
}

function machineId(): string {
  try {
    return readFileSync('/etc/machine-id', 'utf8').trim() || hostname()
  } catch {
    // Many containers have no such file.
    return hostname()
  }
}
