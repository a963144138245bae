import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { findDefaultPaths } from '../config/paths.ts'
import { ifThere } from '../disk/if-there.ts'
import { splitNamed } from './drive-names.ts'
import { absoluteMountpoint } from './mount-paths.ts'
import { parseTarget } from './mount-target.ts'
import { parseUnit, type DriveUnit } from './systemd-unit.ts'

/** The units that bagfs wrote for this user: all, that of a mountpoint, or those of a profile. */
export async function findUnits(target?: string): Promise<readonly DriveUnit[]> {
  const all = await readUnits()
  if (target === undefined) return all
  const { profile, rest = '' } = splitNamed(target) ?? {}
  const ofProfile = rest === '' ? all.filter((unit) => unit.profile === profile) : []
  if (target.endsWith(':')) return ofProfile
  const wanted = await absoluteMountpoint(parseTarget(target).mountpoint)
  const there = all.filter(({ mountpoint }) => mountpoint === wanted)
  return there.length > 0 ? there : ofProfile
}

async function readUnits(): Promise<readonly DriveUnit[]> {
  const directory = unitDirectory()
  const units: DriveUnit[] = []
  for (const name of (await ifThere(readdir(directory), `Looking into ${directory}`)) ?? []) {
    if (!/^bagfs-.*\.service$/.test(name)) continue
    const path = join(directory, name)
    const text = await ifThere(readFile(path, 'utf8'), `Reading ${path}`)
    const unit = parseUnit(text ?? '')
    if (unit !== undefined) units.push(unit)
  }
  return units
}

/** Where systemd looks for the units of this user. */
export function unitDirectory(): string {
  return join(dirname(findDefaultPaths().configDir), 'systemd/user')
}
