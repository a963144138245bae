import { Argument, type Command } from '@commander-js/extra-typings'
import type { WireReport } from '../control/protocol.ts'
import { withCache, type CacheAccess } from './cache-access.ts'
import type { CommandContext } from './context.ts'
import {
  findPlaces,
  mountpointOption,
  stateDirOption,
  titleOf,
  type PlaceFlags,
} from './drive-places.ts'
import { refuseTwo } from './drive-words.ts'
import { createStderrLogger } from './logging.ts'
import { describeCache } from '../mount/status-words.ts'

const VERBS = ['stats', 'verify', 'clear'] as const

/** Adds `bagfs cache`. */
export function addCache(program: Command, context: CommandContext): void {
  program
    .command('cache')
    .description('tell about, check or empty the content that is kept on this machine')
    .addArgument(new Argument('<what>', 'what to do').choices(VERBS))
    .argument('[mountpoint]', 'the drive that is mounted there, or its PROFILE (default: all)')
    .addOption(mountpointOption())
    .addOption(stateDirOption())
    .option('--json', 'print JSON')
    .action(async (verb, mountpoint, { json, ...flags }) => {
      if (mountpoint !== undefined) refuseTwo(flags)
      const places = mountpoint === undefined ? flags : { mountpoint }
      const { output } = context
      const results = await forEachCache(context, places, DO[verb])
      if (json === true) output.json(results.map(({ place, value }) => ({ place, ...value })))
      else for (const { place, text } of results) output.line(`${place}: ${text}`)
      if (results.some(({ failed }) => failed === true)) process.exitCode = 1
    })
}

/** What was done to one cache. */
interface Done {
  readonly value: object
  readonly text: string
  readonly failed?: boolean
}

const DO: Readonly<Record<(typeof VERBS)[number], (cache: CacheAccess) => Promise<Done>>> = {
  stats: async (cache) => {
    const value = await cache.stats()
    return { value, text: describeCache(value) }
  },
  clear: async (cache) => {
    await cache.clear()
    const value = await cache.stats()
    const text =
      value.bytes === 0
        ? 'emptied'
        : `emptied, but for what is open or pinned: ${describeCache(value)}`
    return { value, text }
  },
  verify: async (cache) => {
    const value = await cache.verify(() => undefined)
    const failed = value.bad.length + value.unreadable.length > 0
    return { value, text: describeReport(value), failed }
  },
}

/** `12 good, 3 without a known sum, 1 bad: they are downloaded again when read: 1a2b...` */
function describeReport({ good, unknown, bad, unreadable }: WireReport): string {
  const parts = [`${good} good`]
  if (unknown > 0) parts.push(`${unknown} without a known sum`)
  if (bad.length > 0) {
    parts.push(`${bad.length} bad, set aside and downloaded again when read (${bad.join(', ')})`)
  }
  for (const { bagId, reason } of unreadable) parts.push(`${bagId} not readable: ${reason}`)
  return parts.join(', ')
}

async function forEachCache(
  { output, environment }: CommandContext,
  flags: PlaceFlags,
  task: (cache: CacheAccess) => Promise<Done>,
): Promise<readonly (Done & { readonly place: string })[]> {
  const log = createStderrLogger(output)
  const places = await findPlaces(environment, flags)
  if (places.length === 0) output.note('There is no cache yet: nothing was ever mounted.')
  const results = []
  for (const place of places) {
    const done = await withCache(place, log, task)
    results.push({ ...done, place: titleOf(place) })
  }
  return results
}
