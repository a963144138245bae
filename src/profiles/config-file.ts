import { readFile, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { findDefaultPaths } from '../config/paths.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { ifThere } from '../disk/if-there.ts'
import { refuseOpenPath } from '../disk/open-path.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'
import { fromFileSystem } from '../domain/errors.ts'
import type { ConfigText } from './config-text.ts'
import type { Profiles } from './profile.ts'

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

/** Changes the config file, and makes it when there is none. Rejects as `readProfiles`. */
export async function changeProfiles(change: (config: ConfigText) => void): Promise<void> {
  const path = configPath()
  const config = await parse((await readText(path)) ?? '', path)
  config.read()
  change(config)
  await makePrivateDirectory(dirname(path), 'config directory')
  try {
    // One that is a link into a collection of settings stays one.
    const target = (await ifThere(realpath(path))) ?? path
    await writeFileAtomic(target, config.toString(), { durable: true })
  } catch (error) {
    throw fromFileSystem(error, `Writing ${path}`)
  }
}

async function readText(path: string): Promise<string | undefined> {
  const text = await ifThere(readFile(path, 'utf8'), `Reading ${path}`)
  if (text !== undefined) await refuseOpenPath(dirname(path), 'config directory')
  return text
}

/** The parser is loaded where there is a file. */
async function parse(text: string, path: string): Promise<ConfigText> {
  const { ConfigText } = await import('./config-text.ts')
  return new ConfigText(text, path)
}
