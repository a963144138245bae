import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findDefaultPaths } from '../config/paths.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { lockDirectory, type DirectoryLock, type LockWords } from '../disk/directory-lock.ts'
import { ifThere } from '../disk/if-there.ts'
import { refuseOpenPath } from '../disk/open-path.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'
import { DriveError, fromFileSystem, isDriveError } from '../domain/errors.ts'
import type { ConfigText } from './config-text.ts'
import type { Profiles } from './profile.ts'

const LOCK_WORDS: LockWords = {
  what: 'config directory',
  pathName: 'config directory',
  subject: 'The config file',
  hint: 'Try again when that command has ended.',
}

/** A command that changes the file has it for as long as writing takes. */
const LOCK_TRIES = 100
const LOCK_PAUSE_MS = 50

/** No person writes more, and a parser of more takes long. */
const MOST_BYTES = 2 ** 20
const MOVE_AWAY = 'Move it away; bagfs login makes a config file.'

/** Absolute path of the config file of this user. */
export function configPath(): string {
  return join(findDefaultPaths().configDir, 'config.yaml')
}

/**
 * What the config file says; nothing where there is none. Rejects with `usage`, by file and line, what cannot be
 * understood, and a file that other users of this machine can change.
 */
export async function readProfiles(): Promise<Profiles> {
  const path = configPath()
  const text = await readText(path)
  return text === undefined ? { path, all: [] } : (await parse(text, path)).read()
}

/**
 * Changes the config file, and makes it when there is none; `change` is told what it says until then. One command at a
 * time does that, so that none writes over the profile of another. Rejects as `readProfiles`.
 */
export async function changeProfiles(
  change: (config: ConfigText, before: Profiles) => void,
): Promise<void> {
  const path = configPath()
  await makePrivateDirectory(dirname(path), 'config directory')
  const lock = await waitForLock(join(dirname(path), '.lock'))
  try {
    const config = await parse((await readText(path)) ?? '', path)
    change(config, config.read())
    await write(path, config.toString())
  } finally {
    await lock.release()
  }
}

async function waitForLock(dir: string): Promise<DirectoryLock> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await lockDirectory(dir, LOCK_WORDS)
    } catch (error) {
      if (!isDriveError(error, 'locked') || tries === LOCK_TRIES) throw error
    }
    await sleep(LOCK_PAUSE_MS)
  }
}

async function write(path: string, text: string): Promise<void> {
  try {
    // One that is a link into a collection of settings stays one.
    const target = (await ifThere(realpath(path))) ?? path
    await writeFileAtomic(target, text, { durable: true })
  } catch (error) {
    throw fromFileSystem(error, `Writing ${path}`)
  }
}

async function readText(path: string): Promise<string | undefined> {
  const found = await ifThere(stat(path), `Looking at ${path}`)
  if (found === undefined) return undefined
  // A pipe or a device may have no end.
  if (!found.isFile()) {
    throw new DriveError('usage', `${path} is not a file.`, { hint: MOVE_AWAY })
  }
  if (found.size > MOST_BYTES) {
    throw new DriveError('usage', `${path} is too large to be a config file.`, { hint: MOVE_AWAY })
  }
  const text = await ifThere(readFile(path, 'utf8'), `Reading ${path}`)
  if (text !== undefined) await refuseOpenPath(dirname(path), 'config directory')
  return text
}

/** The parser is loaded where there is a file. */
async function parse(text: string, path: string): Promise<ConfigText> {
  const { ConfigText } = await import('./config-text.ts')
  return new ConfigText(text, path)
}
