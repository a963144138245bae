import { CommanderError } from '@commander-js/extra-typings'
import type { DriveErrorCode } from '../domain/errors.ts'
import { DriveError, MORE_OPEN_FILES, systemErrorCode } from '../domain/errors.ts'

const FAILED = 1
const USAGE = 2
const NOT_ALLOWED = 3
const NOT_FOUND = 4
const NO_ANSWER = 5
export const NO_SPACE = 6
const IN_USE = 7
/** A bug of ours; `EX_SOFTWARE` of sysexits.h. */
const BUG = 70
/** What a shell reports for a program that Ctrl-C ended. */
const INTERRUPTED = 130

const EXIT_CODES: Readonly<Record<DriveErrorCode, number>> = {
  usage: USAGE,
  unauthorized: NOT_ALLOWED,
  forbidden: NOT_ALLOWED,
  'not-found': NOT_FOUND,
  gone: NOT_FOUND,
  unavailable: NO_ANSWER,
  'timed-out': NO_ANSWER,
  'no-space': NO_SPACE,
  'local-disk-full': NO_SPACE,
  busy: IN_USE,
  locked: IN_USE,
  interrupted: INTERRUPTED,
  exists: FAILED,
  'not-a-directory': FAILED,
  'is-a-directory': FAILED,
  'not-empty': FAILED,
  'bad-handle': FAILED,
  'bad-name': FAILED,
  'bad-encoding': FAILED,
  'name-too-long': FAILED,
  invalid: FAILED,
  'no-attribute': FAILED,
  'beyond-end': FAILED,
  'not-permitted': FAILED,
  'read-only': FAILED,
  unsupported: FAILED,
  'cross-device': FAILED,
  'too-large': FAILED,
  corrupt: FAILED,
  'bad-request': FAILED,
  rejected: FAILED,
  'rate-limited': FAILED,
  'server-error': FAILED,
  'bad-answer': FAILED,
  stale: FAILED,
  'local-io': FAILED,
  'too-many-open': FAILED,
}

export const EXIT_CODES_IN_WORDS = `Exit codes: 1 failed, 2 wrong use, 3 not allowed, 4 not found, 5 no answer from the service,
6 no space, 7 in use, 70 a bug in bagfs, 130 interrupted.`

/** What to do about an error whose maker gave no hint of its own. */
const HINTS: Partial<Readonly<Record<DriveErrorCode, string>>> = {
  unauthorized: "Check the token; the service's dashboard gives a new one.",
  forbidden: 'The token is good, but it does not allow this.',
  unavailable: 'Check the URL and the network, then try again.',
  'timed-out': 'The service is slow or unreachable; try again later.',
  'no-space': 'Delete something from the account (bagfs rm), or get more capacity.',
  'rate-limited': 'The service asks for a pause; try again later.',
  'server-error': 'The service has a problem of its own; try again later.',
  'bad-answer': 'Is this the URL of the service itself, without /api?',
}

/** How a command ends when it fails: what is printed, and the exit code. */
export interface CommandFailure {
  readonly text: string
  readonly exitCode: number
}

/** Puts any error into words: a DriveError as a sentence and a hint, everything else as a bug to report. */
export function toFailure(error: unknown): CommandFailure {
  if (error instanceof DriveError) return { text: inWords(error), exitCode: EXIT_CODES[error.code] }
  if (error instanceof CommanderError) return fromCommander(error)
  if (hasTooFewFiles(error)) return { text: TOO_FEW_FILES, exitCode: FAILED }
  const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return {
    text: `bagfs: this is a bug in bagfs, please report it with the lines below.\n${stack}`,
    exitCode: BUG,
  }
}

const TOO_FEW_FILES = `bagfs: Too few files may be open at the same time.\n  ${MORE_OPEN_FILES}`

function hasTooFewFiles(error: unknown): boolean {
  return ['EMFILE', 'ENFILE'].includes(systemErrorCode(error) ?? '')
}

/** What a command tells in place of "try again" where the service may have done what was asked. */
const MAY_BE_DONE =
  'It may have been done all the same: look with bagfs ls before you try it again.'

/** The sentence and its hints, on a line each. */
function inWords({ message, code, facts }: DriveError): string {
  const isLost = facts.answerLost === true
  const hint = facts.hint ?? (isLost ? undefined : HINTS[code])
  const hints = [hint, isLost ? MAY_BE_DONE : undefined]
  return [`bagfs: ${message}`, ...hints].filter((line) => line !== undefined).join('\n  ')
}

/** Help and version leave by an error too, with exit code 0 and nothing more to say. */
function fromCommander(error: CommanderError): CommandFailure {
  if (error.exitCode === 0) return { text: '', exitCode: 0 }
  if (error.code === 'commander.help') return { text: '', exitCode: USAGE }
  const lines = withoutValues(error.message.replace(/^error: /, '')).split('\n')
  const sentence = lines
    .map((line) => line.trim())
    .filter(Boolean)
    .join(' ')
  return { text: `bagfs: ${sentence} (see bagfs --help)`, exitCode: USAGE }
}

/** A value may be a token at the wrong place. Parsers of options repeat what cannot be one. */
function withoutValues(message: string): string {
  return message
    .replace(
      /^command-argument value '[\s\S]*?' is invalid for argument '(\w+)'\./,
      "argument '$1' does not take this value.",
    )
    .replace(/ argument '[\s\S]*?' is invalid\./, ' does not take this value.')
    .replace(/^(unknown option '--[\w-]+)=[\s\S]*?'/, "$1'")
}
