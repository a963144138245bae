import { Argument } from '@commander-js/extra-typings'
import { DriveError } from '../domain/errors.ts'
import type { PlaceFlags } from './drive-places.ts'

/** What a command on drives is to do, with which items, and in which drives. */
export interface DriveWords<Verb extends string> {
  readonly verb: Verb
  readonly names: readonly string[]
  readonly places: PlaceFlags
}

/** The argument that says what to do; a mountpoint may stand in its place. */
export function verbArgument(verbs: readonly string[]): Argument<'[what]', undefined, string> {
  return new Argument('[what]', `what to do (default: ${verbs[0] ?? ''})`)
    .choices(verbs)
    .argParser((text) => text)
}

/** Reads `list`, `~/drive`, `list ~/drive` and `retry ~/drive a.txt`: only a path has a slash, no name and no id. */
export function readWords<Verb extends string>(
  [first, ...others]: readonly string[],
  verbs: readonly [Verb, ...Verb[]],
  flags: PlaceFlags,
): DriveWords<Verb> {
  const verb = first === undefined || isPath(first) ? verbs[0] : verbs.find((it) => it === first)
  if (verb === undefined) {
    throw new DriveError('usage', `"${first ?? ''}" is none of ${verbs.join(', ')}.`, {
      hint: 'A drive is named by its path, such as ./drive.',
    })
  }
  const words = first !== undefined && isPath(first) ? [first, ...others] : others
  const [mountpoint, ...more] = words.filter(isPath)
  if (mountpoint === undefined) return { verb, names: others, places: flags }
  refuseTwo(flags, more)
  return { verb, names: words.filter((word) => !isPath(word)), places: { mountpoint } }
}

/** One drive is meant, and by one word. */
export function refuseTwo(
  { mountpoint, stateDir }: PlaceFlags,
  more: readonly string[] = [],
): void {
  if (mountpoint === undefined && stateDir === undefined && more.length === 0) return
  throw new DriveError(
    'usage',
    'A mountpoint and --mountpoint or --state-dir do not go together.',
    { hint: 'Name the drive once.' },
  )
}

function isPath(word: string): boolean {
  return word.includes('/') || word === '.' || word === '..'
}
