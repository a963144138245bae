import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbsent, isDriveError } from '../domain/errors.ts'
import type { Intent } from '../intents/intent.ts'
import { parseStates } from './intent-file.ts'
import { INTENT_FILE } from './layout.ts'

/** What an older version kept of an intent while a change of it was not on the platter. */
const KEPT = /^intent\.json\.(\d+)\.kept$/

interface IntentOnDisk {
  readonly intent: Intent
  /** Whole states in its file; 0 where it is to be written anew. */
  readonly states: number
  /** What is wrong with its file, where the intent is of before. */
  readonly torn?: unknown
  /** Paths of what an older version kept of it. */
  readonly kept: readonly string[]
}

/** Reads an intent: as it is, or as it was last before a power cut. Rejects as `parseStates`, and ENOENT for a draft. */
export async function readIntentIn(dir: string): Promise<IntentOnDisk> {
  const kept = (await readdir(dir)).filter((name) => KEPT.test(name))
  const newestFirst = kept.sort((one, other) => groupOf(other) - groupOf(one))
  const paths = newestFirst.map((name) => join(dir, name))
  try {
    return { ...(await readStates(join(dir, INTENT_FILE))), kept: paths }
  } catch (torn) {
    if (!isTorn(torn)) throw torn
    for (const path of paths) {
      const intent = await readWhole(path)
      if (intent !== undefined) return { intent, states: 0, torn, kept: paths }
    }
    throw torn
  }
}

/** A file that is there in part, or not at all. */
function isTorn(error: unknown): boolean {
  return isAbsent(error) || isDriveError(error, 'corrupt')
}

async function readWhole(path: string): Promise<Intent | undefined> {
  try {
    return (await readStates(path)).intent
  } catch (error) {
    if (isTorn(error)) return undefined
    throw error
  }
}

async function readStates(path: string): Promise<ReturnType<typeof parseStates>> {
  return parseStates(await readFile(path, 'utf8'))
}

function groupOf(name: string): number {
  return Number(KEPT.exec(name)?.[1] ?? 0)
}
