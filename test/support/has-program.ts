import { spawnSync } from 'node:child_process'

/** Whether a program is installed. Says loudly that a test is skipped where it is not; in CI that fails. */
export function hasProgram(program: string): boolean {
  const found = spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
  if (!found && process.env['BAGFS_REQUIRE_MOUNT'] === '1')
    throw new Error(`${program} is missing.`)
  if (!found) console.error(`*** Skipped: ${program} is not installed. ***`)
  return found
}
