import { Argument } from '@commander-js/extra-typings'
import { DriveError } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import { splitNamed } from './drive-names.ts'
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

/** What the words of a command may mean. */
interface WordSettings<Verb extends string> {
  readonly verbs: readonly [Verb, ...Verb[]]
  readonly flags: PlaceFlags
  /** The names of profiles. */
  readonly profiles: ReadonlySet<string>
}

/**
 * Reads `list`, `~/drive`, `list ~/drive` and `retry ~/drive a.txt`: only a path has a slash, no name and no id. A drive is
 * called `work:` by its profile, too, and `work` where nothing but a look is taken: what is to go for good may have this name.
 */
export function readWords<Verb extends string>(
  words: readonly string[],
  { verbs, flags, profiles }: WordSettings<Verb>,
): DriveWords<Verb> {
  const [first] = words
  const named = verbs.find((verb) => verb === first)
  const verb = named ?? verbs[0]
  const isDrive = (word: string): boolean => {
    const { profile = '', rest } = splitNamed(word) ?? {}
    if (profiles.has(profile) && (rest !== undefined || verb === verbs[0])) return true
    return isPath(word)
  }
  if (named === undefined && first !== undefined && !isDrive(first)) {
    throw new DriveError('usage', `"${first}" is none of ${verbs.join(', ')}.`, {
      hint: 'A drive is named by its path, such as ./drive, or by its profile, such as work:',
    })
  }
  const others = named === undefined ? words : words.slice(1)
  const [mountpoint, ...more] = others.filter(isDrive)
  if (mountpoint === undefined) return { verb, names: others, places: flags }
  refuseTwo(flags, more)
  return { verb, names: others.filter((word) => !isDrive(word)), places: { mountpoint } }
}

/** What follows a command to mean the same drive as flags: a word and a space before it, or nothing. */
export function driveWord({ mountpoint }: PlaceFlags): string {
  if (mountpoint === undefined) return ''
  const isPlain = isPath(mountpoint) || mountpoint.includes(':')
  return ` ${isPlain ? shellQuote(mountpoint) : `--mountpoint ${shellQuote(mountpoint)}`}`
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
