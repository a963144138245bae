import { basename, join } from 'node:path'
import type { Environment } from '../config/env.ts'
import { findRegistryDirs } from '../config/registry-dirs.ts'
import { DriveRegistry } from '../control/registry.ts'
import { listItems } from '../outbox/items.ts'
import { readOutbox } from '../outbox/read-outbox.ts'
import { isOwed } from '../control/status.ts'
import { chooseOptions } from '../profiles/choose-options.ts'
import { isDriveError } from '../domain/errors.ts'
import { configPath } from '../profiles/config-file.ts'
import { tokenPlaceOf, type Profile } from '../profiles/profile.ts'
import { readToken } from '../profiles/tokens.ts'
import { recallUid, stateDirFor } from '../state/accounts.ts'
import { localDataDir, stateDirOf } from './drive-dirs.ts'
import { findDrives } from './drive-places.ts'
import { serviceKeyOf } from './mount-job.ts'

/** What a profile is needed for. */
export interface ProfileUse {
  /** Where its drives are mounted. */
  readonly mountpoints: readonly string[]
  /** Names of what the service does not have yet. */
  readonly waiting: readonly string[]
  /** The state directories that keep them. */
  readonly keptIn: readonly string[]
}

/** What the state directory knows a profile by, and the root of that. */
export async function findState(
  environment: Environment,
  { name }: Pick<Profile, 'name'>,
): Promise<{ readonly root: string; readonly serviceKey: string }> {
  const { options } = await chooseOptions({ environment, flags: {}, profile: name })
  const dataDir = localDataDir(options)
  const serviceKey =
    dataDir === undefined
      ? serviceKeyOf({ kind: 'account', url: options.url ?? '' })
      : serviceKeyOf({ kind: 'local', dataDir })
  return { root: stateDirOf(options), serviceKey }
}

/** The account of a profile that a person wrote, by what its last mount learned; undefined before that. */
async function findAccount(
  profile: Profile,
  { root, serviceKey }: { readonly root: string; readonly serviceKey: string },
): Promise<string | undefined> {
  const place = tokenPlaceOf(profile, configPath())
  if (place === undefined) return undefined
  const token = await readToken(place).catch((error: unknown) => {
    // A token that is gone is no reason to keep the profile.
    if (isDriveError(error, 'usage')) return undefined
    throw error
  })
  return token === undefined ? undefined : recallUid(root, serviceKey, token)
}

/** Looks at the drives and the outbox of an account. Rejects when a drive does not answer. */
export async function findUse(environment: Environment, profile: Profile): Promise<ProfileUse> {
  const { root, serviceKey } = await findState(environment, profile)
  const account = profile.account ?? (await findAccount(profile, { root, serviceKey }))
  if (account === undefined) return { mountpoints: [], waiting: [], keptIn: [] }
  const stateDir = stateDirFor(root, serviceKey, account)
  const { live, dead } = await findDrives()
  const former = await new DriveRegistry(findRegistryDirs()).listFormer()
  // It may have been mounted with another --state-dir; the directory in it has the same name.
  const own = live.filter((drive) => basename(drive.stateDir ?? '') === basename(stateDir))
  const left = [...dead, ...former].filter(
    (drive) => basename(drive.stateDir ?? '') === basename(stateDir),
  )
  const known = [...own, ...left].flatMap((drive) => drive.stateDir ?? [])
  const waiting: string[] = []
  const keptIn: string[] = []
  for (const directory of new Set([stateDir, ...known])) {
    const { intents } = await readOutbox(join(directory, 'outbox'))
    const owed = listItems(intents).filter(isOwed)
    waiting.push(...owed.map((item) => item.name))
    if (owed.length > 0) keptIn.push(directory)
  }
  return { mountpoints: own.map(({ mountpoint }) => mountpoint), waiting, keptIn }
}

/** `A drive is mounted at /mnt/x. 2 changes wait to be sent (a.txt, b.txt).`; empty where nothing is. */
export function describeUse({ mountpoints, waiting }: ProfileUse): string {
  const sentences: string[] = []
  if (mountpoints.length > 0) sentences.push(`A drive is mounted at ${mountpoints.join(', ')}.`)
  if (waiting.length > 0) {
    const changes = waiting.length === 1 ? '1 change waits' : `${waiting.length} changes wait`
    const shown = waiting.slice(0, MOST_SHOWN).join(', ')
    const more = waiting.length > MOST_SHOWN ? ', ...' : ''
    sentences.push(`${changes} to be sent (${shown}${more}).`)
  }
  return sentences.join(' ')
}

const MOST_SHOWN = 5
