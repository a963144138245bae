import { resolve } from 'node:path'
import type { Environment } from '../config/env.ts'
import { parseWrittenValue, type MountFlags } from '../config/options.ts'
import { findDefaultPaths } from '../config/paths.ts'
import { readProfiles } from '../profiles/config-file.ts'

/** Absolute path of the root of the state directories. */
export function stateDirOf({ stateDir }: MountFlags): string {
  return resolve(stateDir ?? findDefaultPaths().stateDir)
}

/** The roots of state directories that this user's drives have: by itself, by the environment, and by profiles. */
export async function knownStateDirs({ options }: Environment): Promise<readonly string[]> {
  const { all } = await readProfiles()
  const written = [options.stateDir, ...all.map((each) => each.options.get('stateDir')?.text)]
  const named = written
    .filter((text) => text !== undefined)
    .flatMap((text) => parseWrittenValue('stateDir', text) ?? [])
    .map((stateDir) => stateDirOf({ stateDir }))
  return [...new Set([stateDirOf({}), ...named])]
}

/** Absolute path of the embedded service's data; undefined for the account of another service. */
export function localDataDir({ local }: MountFlags): string | undefined {
  if (local === undefined) return undefined
  return local === true ? findDefaultPaths().localDataDir : resolve(local)
}
