import { readdir, readFile, rename } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { DriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { ifThere, isThere } from '../disk/if-there.ts'
import { makeDirectoryForGood } from '../disk/make-directory.ts'
import { syncDirectory } from '../disk/sync.ts'
import { parseStates } from './intent-file.ts'
import type { StepListener } from './steps.ts'

export const INTENT_FILE = 'intent.json'
export const CONTENT_FILE = 'content'
/** The zip that a folder is made from which came back from the trash, until the service has it. */
export const BASE_FILE = 'base'
/** Layout 1 had one state of an intent in its file, and layout 0 no directory of its own. */
const VERSION = 2
const ID_PATTERN = /^\d{17}$/
const DAMAGED_PATTERN = /^damaged-(\d{17})(\.\d+)?$/
const VERSION_PATTERN = /^v(\d+)$/

interface LayoutDeps {
  readonly log: Logger
  readonly onStep?: StepListener
}

/** Reads the name of an intent's directory; undefined for any other name. */
export function readIntentDirName(
  name: string,
): { readonly id: string; readonly isDamaged: boolean } | undefined {
  const damaged = DAMAGED_PATTERN.exec(name)?.[1]
  if (damaged !== undefined) return { id: damaged, isDamaged: true }
  return ID_PATTERN.test(name) ? { id: name, isDamaged: false } : undefined
}

/**
 * The directory that holds the intents, made when it is missing. What an older version left is moved
 * into it. Each move is atomic, so that after a kill the next
 * process goes on with the rest. Rejects `unsupported`, with nothing changed, when a newer version
 * left something that this one does not know.
 */
export async function openLayout(deps: LayoutDeps, dir: string): Promise<string> {
  const path = join(dir, `v${VERSION}`)
  for (const name of await namesIn(dir)) await refuseNewerLayout(dir, name)
  const old: string[] = []
  for (const place of olderPlaces(dir)) {
    for (const name of (await namesIn(place)).toSorted()) {
      const found = readIntentDirName(name)
      if (found === undefined) continue
      if (!found.isDamaged) await refuseNewerIntent(join(place, name))
      old.push(join(place, name))
    }
  }
  await makeDirectoryForGood(path)
  for (const from of old) {
    await rename(from, await placeFor(path, basename(from)))
    deps.onStep?.('migrate.moved')
  }
  if (old.length === 0) return path
  // The new place first: after a power cut an intent may be in both, but not in none.
  await syncDirectory(path)
  for (const place of olderPlaces(dir)) await ifThere(syncDirectory(place))
  deps.log.info({ entries: old.length }, 'Took over the outbox of an older version.')
  return path
}

/** Where older versions had their intents, the oldest first. */
function olderPlaces(dir: string): readonly string[] {
  const versions = Array.from({ length: VERSION - 1 }, (_, at) => join(dir, `v${at + 1}`))
  return [dir, ...versions]
}

/**
 * The directories of all intents of the outbox in `dir`, those of an older layout first, as they are. Rejects `unsupported`
 * as `openLayout`.
 */
export async function findIntentDirs(
  dir: string,
): Promise<readonly { readonly path: string; readonly isDamaged: boolean }[]> {
  for (const name of await namesIn(dir)) await refuseNewerLayout(dir, name)
  const found: { path: string; isDamaged: boolean }[] = []
  for (const place of [...olderPlaces(dir), join(dir, `v${VERSION}`)]) {
    for (const name of await namesIn(place)) {
      const intent = readIntentDirName(name)
      if (intent !== undefined) found.push({ path: join(place, name), isDamaged: intent.isDamaged })
    }
  }
  return found
}

/** A path that is free for an intent that is set aside. */
export async function placeAside(path: string, id: string): Promise<string> {
  const aside = join(path, `damaged-${id}`)
  let free = aside
  for (let copy = 1; await isThere(free); copy += 1) free = `${aside}.${copy}`
  return free
}

/** Where an intent of an older layout goes. It is set aside for the user when its place is taken. */
async function placeFor(path: string, name: string): Promise<string> {
  const place = join(path, name)
  if (!(await isThere(place))) return place
  return placeAside(path, readIntentDirName(name)?.id ?? name)
}

async function refuseNewerLayout(dir: string, name: string): Promise<void> {
  const version = Number(VERSION_PATTERN.exec(name)?.[1] ?? 0)
  if (version > VERSION && (await namesIn(join(dir, name))).length > 0) throw newerVersion(dir)
}

async function refuseNewerIntent(path: string): Promise<void> {
  const text = await ifThere(readFile(join(path, INTENT_FILE), 'utf8'))
  if (text === undefined) return
  try {
    parseStates(text)
  } catch (error) {
    // What is damaged is set aside when it is loaded.
    if (error instanceof DriveError && error.code === 'unsupported') throw error
  }
}

function newerVersion(dir: string): DriveError {
  return new DriveError(
    'unsupported',
    `The outbox in ${dir} is that of a newer version of bagfs; use that one, which knows what waits in it.`,
  )
}

async function namesIn(dir: string): Promise<readonly string[]> {
  return (await ifThere(readdir(dir))) ?? []
}
