import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { DriveRegistry } from '../../src/control/registry.ts'

/** Variables of a process that knows no drives but those of one directory. */
export function placesIn(dir: string): Record<string, string> {
  return { XDG_RUNTIME_DIR: dir, XDG_STATE_HOME: dir }
}

/** The drives of such a process. */
export function registryIn(dir: string): DriveRegistry {
  const drives = join(dir, 'bagfs/drives')
  return new DriveRegistry(readdirSync(drives).map((machine) => join(drives, machine)))
}
