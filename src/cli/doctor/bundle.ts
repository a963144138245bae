import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Environment } from '../../config/env.ts'
import { listMounts } from '../../disk/find-mount.ts'
import { ifThere } from '../../disk/if-there.ts'
import { systemClock } from '../../domain/clock.ts'
import { DriveError, fromFileSystem, isDriveError, systemErrorCode } from '../../domain/errors.ts'
import { describeStatus } from '../../mount/status-words.ts'
import { tokenPlaceOf, type Profiles } from '../../profiles/profile.ts'
import { readToken } from '../../profiles/tokens.ts'
import { describeOptions } from '../config.ts'
import { stateDirOf } from '../drive-dirs.ts'
import { hideSecrets } from '../logging.ts'
import { LOG_DIRECTORY } from '../mount-log.ts'
import { readVersion } from '../version.ts'
import type { Examination } from './examine.ts'

/** Of each log, from its end. */
const LOG_BYTES = 64 * 1024

/** Writes a report for other people to a new file of this user alone: lines of the doctor, options, drives and logs, and no token. */
export async function writeBundle(
  path: string,
  examination: Examination,
  { lines, environment }: { readonly lines: readonly string[]; readonly environment: Environment },
): Promise<void> {
  const sections = await collect(examination, lines, environment)
  const text = sections.map(([title, body]) => `== ${title}\n${body.join('\n')}\n`).join('\n')
  const secrets = await knownSecrets(examination, environment)
  await writeNew(path, hideSecrets(text, secrets))
}

type Section = readonly [title: string, body: readonly string[]]

async function collect(
  { chosen, statuses }: Examination,
  lines: readonly string[],
  environment: Environment,
): Promise<readonly Section[]> {
  const now = systemClock.now()
  const mounts = ((await ifThere(listMounts())) ?? []).filter(({ type }) => type.startsWith('fuse'))
  return [
    [`bagfs ${readVersion()}, ${new Date(now).toISOString()}`, lines],
    ['options', chosen === undefined ? [] : describeOptions(chosen, environment)],
    ...statuses.map((status): Section => [`drive`, [describeStatus(status, now)]]),
    ['mounts', mounts.map(({ mountpoint, type, source }) => `${mountpoint} ${source} (${type})`)],
    ...(chosen === undefined
      ? []
      : await readLogs(join(stateDirOf(chosen.options), LOG_DIRECTORY))),
  ]
}

async function readLogs(directory: string): Promise<readonly Section[]> {
  const sections: Section[] = []
  for (const name of (await ifThere(readdir(directory), `Looking into ${directory}`)) ?? []) {
    if (!name.endsWith('.log')) continue
    sections.push([`log ${name}`, [await readEnd(join(directory, name))]])
  }
  return sections
}

/** Whole lines: the rest of a cut one could be the rest of a secret. */
async function readEnd(path: string): Promise<string> {
  try {
    const file = await open(path, 'r')
    try {
      const { size } = await file.stat()
      const start = Math.max(size - LOG_BYTES, 0)
      const { buffer, bytesRead } = await file.read(Buffer.alloc(LOG_BYTES), 0, LOG_BYTES, start)
      const text = buffer.toString('utf8', 0, bytesRead)
      return (start === 0 ? text : text.slice(text.indexOf('\n') + 1)).trimEnd()
    } finally {
      await file.close()
    }
  } catch (error) {
    throw fromFileSystem(error, `Reading ${path}`)
  }
}

/** Tokens of all accounts of this person: a log may be of any of them. Each also as JSON writes it. */
async function knownSecrets(
  { token, chosen }: Examination,
  environment: Environment,
): Promise<readonly string[]> {
  const kept = chosen === undefined ? [] : await keptTokens(chosen.profiles)
  return [token, environment.token, environment.lastResortToken, ...kept]
    .filter((secret) => secret !== undefined)
    .flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)])
}

async function keptTokens(profiles: Profiles): Promise<readonly (string | undefined)[]> {
  const places = profiles.all.flatMap((profile) => tokenPlaceOf(profile, profiles.path) ?? [])
  return Promise.all(
    places.map((place) =>
      readToken(place).catch((error: unknown) => {
        // What cannot be had any more is no token that a reader could use.
        if (isDriveError(error)) return undefined
        throw error
      }),
    ),
  )
}

async function writeNew(path: string, text: string): Promise<void> {
  try {
    const file = await open(path, 'wx', 0o600)
    try {
      await file.writeFile(text)
    } finally {
      await file.close()
    }
  } catch (error) {
    if (systemErrorCode(error) !== 'EEXIST') throw fromFileSystem(error, `Writing ${path}`)
    throw new DriveError('exists', `${path} is there already.`, { hint: 'Choose a new name.' })
  }
}
