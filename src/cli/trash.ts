import type { Command } from '@commander-js/extra-typings'
import type { Environment } from '../config/env.ts'
import { formatSize } from '../config/sizes.ts'
import type { WireTrashItem } from '../control/protocol.ts'
import { DriveError } from '../domain/errors.ts'
import { checkTypedName, encodeName } from '../domain/names.ts'
import { mayRemoveForGood, YES_HELP } from './for-good.ts'
import { oneByOne } from './one-by-one.ts'
import { withoutZip } from '../domain/folder-names.ts'
import { findItem, isIdOf, nameItems, notInTrash } from '../trash/item-names.ts'
import { shortIdOf } from '../trash/item.ts'
import type { CommandContext } from './context.ts'
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
import type { Output } from './output.ts'
import { refuseSeveral } from './refuse-several.ts'
import { trashOf } from './trash-access.ts'

interface TrashFlags extends PlaceFlags {
  readonly as?: string
  readonly replace?: boolean
  readonly yes?: boolean
  readonly json?: boolean
}

const VERBS = ['list', 'restore', 'empty'] as const

/** Adds `bagfs trash`. */
export function addTrash(program: Command, context: CommandContext): void {
  program
    .command('trash')
    .description('list, restore or remove for good what was deleted or replaced')
    .addArgument(verbArgument(VERBS))
    .argument(
      '[item...]',
      'a mountpoint or PROFILE:; names or ids, of several with one name the newest (empty without any: all)',
    )
    .addOption(mountpointOption())
    .addOption(stateDirOption())
    .option('--as <name>', 'restore under another name')
    .option(
      '--replace',
      'restore in the place of the stored file of the name, which goes to the trash',
    )
    .option('--yes', YES_HELP)
    .option('--json', 'print the list as JSON')
    .action(async (what, items, flags) => {
      const words = what === undefined ? [] : [what, ...items]
      const { verb, names, places } = readWords(words, {
        ...{ verbs: VERBS, flags },
        profiles: await knownProfiles(),
      })
      await new TrashCommand(context, { ...flags, ...places }).run(verb, names)
    })
}

/** What one account has in its trash. */
interface PlaceTrash {
  readonly place: DrivePlace
  readonly items: readonly WireTrashItem[]
}

interface PlacedItem {
  readonly place: DrivePlace
  readonly item: WireTrashItem
}

class TrashCommand {
  readonly #output: Output
  readonly #flags: TrashFlags
  readonly #environment: Environment

  constructor({ output, environment }: CommandContext, flags: TrashFlags) {
    this.#output = output
    this.#environment = environment
    this.#flags = flags
  }

  async run(verb: (typeof VERBS)[number], wanted: readonly string[]): Promise<void> {
    const places: PlaceTrash[] = []
    for (const place of await findPlaces(this.#environment, this.#flags)) {
      places.push({ place, items: await this.#of(place).list() })
    }
    if (verb === 'list') this.#list(places, wanted)
    else if (verb === 'restore') await this.#restore(places, wanted)
    else await this.#empty(places, wanted)
  }

  #of(place: DrivePlace) {
    return trashOf(place, createStderrLogger(this.#output))
  }

  #list(places: readonly PlaceTrash[], wanted: readonly string[]): void {
    const isMeant = ({ name }: WireTrashItem): boolean =>
      wanted.length === 0 || wanted.includes(name)
    const listed = places.map(({ place, items }) => ({
      place: titleOf(place),
      items: items.filter(isMeant),
    }))
    const count = listed.reduce((sum, { items }) => sum + items.length, 0)
    if (this.#flags.json === true) this.#output.json(listed)
    else if (count === 0 && wanted.length > 0) {
      throw notInTrash(wanted.join(', '), driveWord(this.#flags))
    } else if (count === 0) this.#output.note('The trash is empty.')
    else for (const each of listed) this.#print(each)
  }

  #print({ place, items }: { readonly place: string; readonly items: readonly WireTrashItem[] }) {
    if (items.length === 0) return
    this.#output.line(`${place}:`)
    for (const [shown, item] of nameItems(items)) {
      const { why, isFolder, length } = item
      const kind = isFolder ? 'folder, ' : ''
      const called = isFolder ? withoutZip(shown) : shown
      this.#output.line(`  ${shortIdOf(item)}  ${called}  ${kind}${formatSize(length)}, ${why}`)
    }
  }

  /** All are found before any is restored: a typing error restores nothing. */
  async #restore(places: readonly PlaceTrash[], wanted: readonly string[]): Promise<void> {
    if (wanted.length === 0) {
      throw new DriveError('usage', 'Say what to restore: a name or an id.', {
        hint: `bagfs trash list${driveWord(this.#flags)} has them.`,
      })
    }
    const { as: name, replace = false } = this.#flags
    if (name !== undefined && wanted.length > 1) {
      throw new DriveError('usage', '--as names one item.')
    }
    if (name !== undefined) refuseCoded(name)
    const chosen = wanted.map((each) => this.#find('restore', places, each))
    await oneByOne(
      this.#output,
      chosen.map(({ place, item }) => ({ place, item, name: item.name })),
      {
        not: 'stored',
        task: async ({ place, item }) => {
          const as = name === undefined ? {} : { name }
          await this.#of(place).restore(item.bagId, { ...as, replace })
          const when = place.kind === 'live' ? 'Restored' : 'To be restored by the next mount'
          this.#output.note(`${when}: ${name ?? item.name}`)
        },
      },
    )
  }

  /** Removes what was listed when the person was asked, and nothing that came since. */
  async #empty(places: readonly PlaceTrash[], wanted: readonly string[]): Promise<void> {
    const all = places.flatMap(({ place, items }) => items.map((item) => ({ place, item })))
    const chosen =
      wanted.length === 0 ? all : wanted.map((each) => this.#find('empty', places, each))
    if (chosen.length === 0) {
      this.#output.note('The trash is empty.')
      return
    }
    if (!(await this.#mayEmpty(chosen.map(({ item }) => item)))) return
    let count = 0
    for (const { place } of places) {
      const ids = chosen.filter((each) => each.place === place).map(({ item }) => item.bagId)
      if (ids.length > 0) count += (await this.#of(place).empty(ids)).length
    }
    this.#output.note(`Removed ${items(count)} for good.`)
  }

  /** An id is of the same content everywhere: the first trash that has it will do. */
  #find(verb: string, places: readonly PlaceTrash[], wanted: string): PlacedItem {
    const found = places.flatMap(({ place, items }) => {
      const item = findItem(items, wanted)
      return item === undefined ? [] : [{ place, item }]
    })
    const [first] = found
    if (first === undefined) throw notInTrash(wanted, driveWord(this.#flags))
    if (!found.every(({ item }) => isIdOf(item, wanted))) {
      const have = found.map(({ place }) => place)
      refuseSeveral(wanted, have, { room: 'trash', verb })
    }
    return first
  }

  #mayEmpty(chosen: readonly WireTrashItem[]): Promise<boolean> {
    const bytes = chosen.reduce((sum, { length }) => sum + length, 0)
    return mayRemoveForGood(this.#output, {
      isSaid: this.#flags.yes === true,
      question: `Remove ${items(chosen.length)} (${formatSize(bytes)}) for good?`,
      words: 'What is removed from the trash is lost for good.',
      instead: `bagfs trash restore${driveWord(this.#flags)} ITEM brings it back.`,
    })
  }
}

function items(count: number): string {
  return count === 1 ? '1 item' : `${count} items`
}

/** A drive would show another name than the person has chosen. */
function refuseCoded(name: string): void {
  checkTypedName(name)
  if (encodeName(name) === name) return
  throw new DriveError('bad-name', `A drive cannot show ${JSON.stringify(name)} as it is.`, {
    hint: 'Choose a name without line ends, other controls and ‛, and none of those that the drive has itself, such as .bagfs.',
  })
}
