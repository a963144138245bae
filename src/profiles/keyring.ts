import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import type { KeyringItem } from '../config/token.ts'
import { DriveError, systemErrorCode } from '../domain/errors.ts'

const PROGRAM = 'secret-tool'

/** A keyring that is locked asks the person for its password meanwhile. */
const LONGEST_ANSWER_MS = 60_000

/** What secret-tool ended with; undefined where there is no such program. */
interface ToolOutcome {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * Gives a secret to the desktop's keyring, and looks whether it has it. False where there is none, or it does
 * not answer. The secret goes through a pipe, and is in no list of processes.
 */
export async function storeInKeyring(
  item: KeyringItem,
  secret: string,
  label: string,
): Promise<boolean> {
  const stored = await run(['store', `--label=${label}`, ...attributesOf(item)], secret)
  if (stored?.exitCode !== 0) return false
  return (await run(['lookup', ...attributesOf(item)]))?.stdout === secret
}

/** A secret of the keyring. Rejects `usage` where it is not to be had, with what to do. */
export async function readFromKeyring(
  item: KeyringItem,
  longestMs: number = LONGEST_ANSWER_MS,
): Promise<string> {
  const found = await run(['lookup', ...attributesOf(item)], '', longestMs)
  if (found?.exitCode === 0 && found.stdout !== '') return found.stdout
  throw new DriveError('usage', `The token of profile ${item.profile} ${whyNot(found)}.`, {
    hint: `Unlock the keyring, or keep the token in a file: bagfs login ${item.profile} --no-keyring`,
  })
}

function whyNot(found: ToolOutcome | undefined): string {
  if (found === undefined) return `is in the keyring of the desktop, and ${PROGRAM} is missing`
  if (found.exitCode === null) return 'is in the keyring of the desktop, which does not answer'
  const [said = ''] = found.stderr.trim().split('\n')
  if (said === '') return 'is not in the keyring of the desktop'
  return `is in the keyring of the desktop, which does not answer (${PROGRAM}: ${said})`
}

/** Takes a secret out of the keyring; false where that cannot be done. */
export async function removeFromKeyring(item: KeyringItem): Promise<boolean> {
  const cleared = await run(['clear', ...attributesOf(item)])
  if (cleared === undefined) return false
  if (cleared.exitCode === 0) return true
  // `clear` says the same where there is no such secret and where the keyring is locked. A locked one still tells of its items.
  const left = await run(['search', '--all', ...attributesOf(item)])
  return (
    [cleared, left].every((each) => each?.exitCode !== null && each?.stderr.trim() === '') &&
    left?.stdout.trim() === ''
  )
}

function attributesOf({ profile, config, service }: KeyringItem): readonly string[] {
  return ['application', 'bagfs', 'config', config, 'profile', profile, 'service', service]
}

async function run(
  args: readonly string[],
  input = '',
  longestMs: number = LONGEST_ANSWER_MS,
): Promise<ToolOutcome | undefined> {
  const child = spawn(PROGRAM, args, { timeout: longestMs, killSignal: 'SIGKILL' })
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  // It may end before it has read all.
  child.stdin.on('error', () => undefined)
  child.stdin.end(input)
  try {
    const [exitCode, stdout, stderr] = await Promise.all([
      ended,
      text(child.stdout),
      text(child.stderr),
    ])
    return { exitCode, stdout, stderr }
  } catch (error) {
    if (['ENOENT', 'EACCES'].includes(systemErrorCode(error) ?? '')) return undefined
    throw error
  }
}
