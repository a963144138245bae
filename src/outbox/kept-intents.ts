import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isDriveError, systemErrorCode } from '../domain/errors.ts'
import type { Intent } from '../intents/intent.ts'
import { parseIntent } from './intent-file.ts'
import { INTENT_FILE } from './layout.ts'

const KEPT = /^intent\.json\.(\d+)\.kept$/

/** What an intent was before a write of this group; see `GroupSync`. */
export function keptName(group: number): string {
  return `${INTENT_FILE}.${group}.kept`
}

interface IntentOnDisk {
  readonly intent: Intent
  /** What is wrong with its file, where the intent is of before. */
  readonly torn?: unknown
  /** Paths of what it was before. */
  readonly kept: readonly string[]
}

/** Reads an intent: as it is, or as it was last before a power cut. Rejects as `parseIntent`, and ENOENT for a draft. */
export async function readIntentIn(dir: string): Promise<IntentOnDisk> {
  const kept = (await readdir(dir)).filter((name) => KEPT.test(name))
  const newestFirst = kept.sort((one, other) => groupOf(other) - groupOf(one))
  const paths = newestFirst.map((name) => join(dir, name))
  try {
    return { intent: await readIntent(join(dir, INTENT_FILE)), kept: paths }
  } catch (torn) {
    if (!isTorn(torn)) throw torn
    for (const path of paths) {
      const intent = await readWhole(path)
      if (intent !== undefined) return { intent, torn, kept: paths }
    }
    throw torn
  }
}

/** A file that is there in part, or not at all. */
function isTorn(error: unknown): boolean {
  return systemErrorCode(error) === 'ENOENT' || isDriveError(error, 'corrupt')
}

async function readWhole(path: string): Promise<Intent | undefined> {
  try {
    return await readIntent(path)
  } catch (error) {
    if (isTorn(error)) return undefined
    throw error
  }
}

async function readIntent(path: string): Promise<Intent> {
  return parseIntent(await readFile(path, 'utf8'))
}

function groupOf(name: string): number {
  return Number(KEPT.exec(name)?.[1] ?? 0)
}
