import { createWriteStream } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Command } from '@commander-js/extra-typings'
import type { WireItem } from '../control/protocol.ts'
import { isOwed } from '../control/status.ts'
import { refuseEmpty } from '../config/paths.ts'
import type { Environment } from '../config/env.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError, fromFileSystem } from '../domain/errors.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import type { CommandContext } from './context.ts'
import { publish, withDraft } from './destination.ts'
import {
  findPlaces,
  mountpointOption,
  stateDirOption,
  titleOf,
  type DrivePlace,
  type PlaceFlags,
} from './drive-places.ts'
import { knownProfiles } from './drive-names.ts'
import { driveWord, readWords, verbArgument } from './drive-words.ts'
import { createStderrLogger } from './logging.ts'
import { mayRemoveForGood, YES_HELP } from './for-good.ts'
import { oneByOne } from './one-by-one.ts'
import { withOutbox, type OutboxAccess } from './outbox-access.ts'
import type { Output } from './output.ts'
import { refuseSeveral } from './refuse-several.ts'
import { listenForStop } from './signals.ts'
import { describeDamaged, describeItem } from '../mount/status-words.ts'

type Verb = (typeof VERBS)[number]

interface Flags extends PlaceFlags {
  readonly to?: string
  readonly yes?: boolean
  readonly json?: boolean
}

/** What one outbox holds. */
interface PlaceItems {
  readonly place: string
  readonly items: readonly WireItem[]
  readonly damaged: readonly string[]
}

/** The changes of one outbox that a person means. */
interface MeantItems {
  readonly place: DrivePlace
  readonly items: readonly WireItem[]
}

const VERBS = ['list', 'retry', 'save', 'discard'] as const

/** What a change must have for what is to be done with it. */
const FITS: Readonly<Record<Exclude<Verb, 'list'>, (item: WireItem) => boolean>> = {
  retry: isOwed,
  save: (item) => item.kind === 'put' && (isOwed(item) || item.isFolder !== true),
  discard: () => true,
}

/** Adds `bagfs outbox`. */
export function addOutbox(program: Command, context: CommandContext): void {
  program
    .command('outbox')
    .description('list, retry, save or discard changes that the service does not have')
    .addArgument(verbArgument(VERBS))
    .argument(
      '[id...]',
      'a mountpoint or PROFILE:; ids or names, without any all (but for discard)',
    )
    .addOption(mountpointOption())
    .addOption(stateDirOption())
    .option('--to <dir>', 'where save puts the content (default: here)')
    .option('--yes', YES_HELP)
    .option('--json', 'print the list as JSON')
    .action(async (what, ids, flags) => {
      const words = what === undefined ? [] : [what, ...ids]
      const { verb, names, places } = readWords(words, {
        ...{ verbs: VERBS, flags },
        profiles: await knownProfiles(),
      })
      await new OutboxCommand(context, { ...flags, ...places }).run(verb, names)
    })
}

/** A state directory that only a flag names is not looked at, so what was looked at is told. */
function emptyNote(places: readonly DrivePlace[]): string {
  if (places.length === 0) return 'No account has been used here: no outbox is known.'
  return `The outbox is empty: everything is stored of ${places.map(titleOf).join(', ')}.`
}

class OutboxCommand {
  readonly #output: Output
  readonly #flags: Flags
  readonly #environment: Environment

  constructor({ output, environment }: CommandContext, flags: Flags) {
    this.#output = output
    this.#environment = environment
    this.#flags = flags
  }

  async run(verb: Verb, ids: readonly string[]): Promise<void> {
    const places = await findPlaces(this.#environment, this.#flags)
    if (verb === 'list') await this.#list(places, ids)
    else await this.#change(verb, places, ids)
  }

  async #list(places: readonly DrivePlace[], ids: readonly string[]): Promise<void> {
    const listed: PlaceItems[] = []
    for (const place of places) {
      const { items, damaged } = await this.#with(place, async (outbox) => ({
        items: (await outbox.list()).filter(isMeantBy(ids)),
        damaged: ids.length > 0 ? [] : await outbox.damaged(),
      }))
      listed.push({ place: titleOf(place), items, damaged })
    }
    const count = listed.reduce((sum, each) => sum + each.items.length + each.damaged.length, 0)
    if (ids.length > 0 && count === 0) throw nothingCalled(ids, this.#flags)
    if (this.#flags.json === true) this.#output.json(listed)
    else if (count === 0) this.#output.note(emptyNote(places))
    else for (const each of listed) this.#print(each)
  }

  #print({ place, items, damaged }: PlaceItems): void {
    if (items.length + damaged.length === 0) return
    this.#output.line(`${place}:`)
    const now = systemClock.now()
    for (const item of items) this.#output.line(`  ${item.id}  ${describeItem(item, now)}`)
    for (const path of damaged) this.#output.line(`  ${describeDamaged(path)}`)
  }

  async #change(
    verb: Exclude<Verb, 'list'>,
    places: readonly DrivePlace[],
    ids: readonly string[],
  ): Promise<void> {
    if (verb === 'discard') this.#refuseNone(ids)
    const found = await this.#find(places, ids)
    for (const id of ids) {
      const isMeant = (item: WireItem): boolean => item.name === id && FITS[verb](item)
      const have = found.filter(({ items }) => items.some(isMeant)).map(({ place }) => place)
      refuseSeveral(id, have, { room: 'outbox', verb })
    }
    if (verb === 'discard' && !(await this.#mayDiscard(ids))) return
    let count = 0
    for (const { place, items } of found) {
      const fitting = items.filter(FITS[verb])
      await this.#with(place, (outbox) => this.#do(verb, outbox, fitting))
      count += fitting.length
    }
    const meant = found.flatMap(({ items }) => items)
    if (count > 0) return
    if (meant.length > 0) this.#nothingTo(verb, meant)
    else if (ids.length > 0) throw nothingCalled(ids, this.#flags)
    else this.#output.note(emptyNote(places))
  }

  async #find(
    places: readonly DrivePlace[],
    ids: readonly string[],
  ): Promise<readonly MeantItems[]> {
    const found: MeantItems[] = []
    for (const place of places) {
      const all = await this.#with(place, (outbox) => outbox.list())
      found.push({ place, items: all.filter(isMeantBy(ids)) })
    }
    return found
  }

  #nothingTo(verb: Exclude<Verb, 'list'>, items: readonly WireItem[]): void {
    for (const { name, state } of items) {
      this.#output.note(`There is nothing to ${verb} of ${name}: ${state}.`)
    }
  }

  #refuseNone(ids: readonly string[]): void {
    if (ids.length > 0) return
    throw new DriveError(
      'usage',
      `Say what to discard, by the ids that bagfs outbox${driveWord(this.#flags)} lists.`,
    )
  }

  #mayDiscard(ids: readonly string[]): Promise<boolean> {
    return mayRemoveForGood(this.#output, {
      isSaid: this.#flags.yes === true,
      question: `Discard ${ids.join(', ')} for good?`,
      words: 'Discarded content is lost for good.',
      instead: `bagfs outbox save${driveWord(this.#flags)} ${ids.map(shellQuote).join(' ')} keeps a copy.`,
    })
  }

  async #do(
    verb: Exclude<Verb, 'list'>,
    outbox: OutboxAccess,
    items: readonly WireItem[],
  ): Promise<void> {
    const ids = items.map(({ id }) => id)
    if (ids.length === 0) return
    if (verb === 'save') {
      await this.#saveAll(outbox, items)
      return
    }
    const done = verb === 'retry' ? await outbox.retry(ids) : await outbox.discard(ids)
    const word = verb === 'retry' ? 'To be tried again' : 'Discarded'
    for (const { id, name } of done) this.#output.note(`${word}: ${name} (${id})`)
  }

  /** One that cannot be saved keeps no other from it. */
  async #saveAll(outbox: OutboxAccess, items: readonly WireItem[]): Promise<void> {
    const { to = '.' } = this.#flags
    refuseEmpty(to)
    const directory = resolve(to)
    await makeDirectory(directory)
    const { stop, ignore } = listenForStop()
    const task = (item: WireItem): Promise<void> => this.#save(outbox, item, { directory, stop })
    try {
      await oneByOne(this.#output, items, { not: 'saved', task })
    } finally {
      ignore()
    }
  }

  /** A name appears with all of its content, or not at all. */
  async #save(
    outbox: OutboxAccess,
    { id, isFolder, name }: WireItem,
    { directory, stop }: { readonly directory: string; readonly stop: AbortSignal },
  ): Promise<void> {
    const fileName = isFolder === true && !name.endsWith('.zip') ? `${name}.zip` : name
    const path = await withDraft(directory, async (draft) => {
      const content = join(draft, 'content')
      await writeDown(await outbox.content(id), content, stop)
      const ifTaken = 'Choose another directory with --to.'
      return publish(content, { directory, name: undefined, ifTaken }, fileName)
    })
    this.#output.line(path)
  }

  #with<Result>(
    place: DrivePlace,
    task: (outbox: OutboxAccess) => Promise<Result>,
  ): Promise<Result> {
    return withOutbox(place, createStderrLogger(this.#output), task)
  }
}

async function makeDirectory(dir: string): Promise<void> {
  try {
    await mkdir(dir, { recursive: true })
  } catch (error) {
    throw fromFileSystem(error, `Cannot make ${dir}`)
  }
}

async function writeDown(content: Readable, path: string, stop: AbortSignal): Promise<void> {
  try {
    await pipeline(content, createWriteStream(path, { mode: 0o600 }), { signal: stop })
  } catch (error) {
    stop.throwIfAborted()
    throw fromFileSystem(error, `Cannot write ${path}`)
  }
}

function isMeantBy(ids: readonly string[]): (item: WireItem) => boolean {
  return ({ id, name }) => ids.length === 0 || ids.includes(id) || ids.includes(name)
}

function nothingCalled(ids: readonly string[], flags: Flags): DriveError {
  return new DriveError('not-found', `The outbox has nothing called ${ids.join(' or ')}.`, {
    hint: `bagfs outbox list${driveWord(flags)} tells what it has.`,
  })
}
