import { DriveError } from '../domain/errors.ts'
import { localStamp } from '../domain/local-stamp.ts'
import { withoutZip } from '../domain/folder-names.ts'
import { encodeName, insertBeforeExtension } from '../domain/names.ts'
import { shortIdOf, type TrashItem } from './item.ts'

/** An id is known by so much of its beginning. */
const LEAST_ID_LENGTH = 8

/** An item, or what a drive tells of one. */
type NamedItem = Pick<TrashItem, 'name' | 'isFolder' | 'deletedAtMs'> & { readonly bagId: string }

/** By when each was deleted and what it was called: `2026-11-23 18.02.05 report.odt`; of a folder, its zip. */
export function nameItems<Item extends NamedItem>(
  items: readonly Item[],
): ReadonlyMap<string, Item> {
  const byName = new Map<string, Item>()
  for (const item of items) {
    const name = timedName(item)
    byName.set(byName.has(name) ? markedName(item) : name, item)
  }
  return byName
}

/** Without the colons that file systems of other machines refuse in a name. */
function stampOf(atMs: number): string {
  return localStamp(atMs).replaceAll(':', '.')
}

/**
 * The item that a person means: by its name, by what it is called in `.bagfs/trash`, or by the beginning of its bag id.
 * The time may be left out.
 * Of several with one name it is the one that was deleted last. Throws `usage` for the beginning of several ids.
 */
export function findItem<Item extends NamedItem>(
  items: readonly Item[],
  wanted: string,
): Item | undefined {
  const shown = wanted.split('/').at(-1) ?? ''
  const isCalled = ({ name, bagId }: Item): boolean => name === wanted || bagId === wanted
  const named = items.find(isCalled) ?? items.find((item) => shownNames(item).includes(shown))
  if (named !== undefined || wanted.length < LEAST_ID_LENGTH) return named
  const byId = items.filter(({ bagId }) => bagId.startsWith(wanted))
  if (byId.length <= 1) return byId[0]
  throw new DriveError('usage', `${wanted} is the beginning of several ids.`, {
    hint: 'Give more of the id.',
  })
}

/** True where `findItem` finds the item by its id, and by no name. */
export function isIdOf({ name, bagId }: NamedItem, wanted: string): boolean {
  return name !== wanted && wanted.length >= LEAST_ID_LENGTH && bagId.startsWith(wanted)
}

/** All that it may be called in `.bagfs/trash` and, a folder, in the list of a command; each also without the time. */
function shownNames(item: NamedItem): readonly string[] {
  const zipped = [timedName(item), markedName(item)]
  const timed = item.isFolder ? [...zipped, ...zipped.map(withoutZip)] : zipped
  const stampLength = stampOf(item.deletedAtMs).length + 1
  return [...timed, ...timed.map((name) => name.slice(stampLength))]
}

function timedName({ name, isFolder, deletedAtMs }: NamedItem): string {
  return encodeName(`${stampOf(deletedAtMs)} ${name}${isFolder ? '.zip' : ''}`)
}

/** Where another one has its name. */
function markedName(item: NamedItem): string {
  return insertBeforeExtension(timedName(item), ` (${shortIdOf(item)})`)
}

/** As `findItem`; throws `not-found`. */
export function chooseItem<Item extends NamedItem>(items: readonly Item[], wanted: string): Item {
  const item = findItem(items, wanted)
  if (item !== undefined) return item
  throw notInTrash(wanted)
}

/** `drive` is what names it after `bagfs trash list`, with a space before it. */
export function notInTrash(wanted: string, drive = ''): DriveError {
  const isNamed = drive !== ''
  return new DriveError('not-found', `The trash has nothing called ${wanted}.`, {
    hint: `bagfs trash list${drive} tells what it has.${isNamed ? '' : ' A drive is named by its path, such as ./drive.'}`,
  })
}
