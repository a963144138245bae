import { formatSize } from '../config/sizes.ts'
import { shellQuote } from '../domain/shell-quote.ts'
import type { WireExplanation, WireItem } from '../control/protocol.ts'
import { describeConflict } from '../drive/root/conflicts.ts'
import { describeLeftOut } from '../drive/folders/left-out.ts'
import { shortIdOf } from '../trash/item.ts'
import { describePinState } from './pin-words.ts'
import { formatTime } from './format-time.ts'
import { describeRefused } from './status-words.ts'

/** Where an explained path is, and when it is told of. */
export interface Telling {
  readonly mountpoint: string
  /** The drive as the person named it, for commands: its path, or `PROFILE:`. */
  readonly called: string
  /** Of the account, where the drive tells it. */
  readonly profile?: string
  readonly nowMs: number
  /** Of the cache, in bytes. */
  readonly cacheBytes: number
}

/** A command that mends or moves on, and what it does. */
export interface Remedy {
  readonly command: string
  readonly does: string
}

/** What is at a path, for people: what `bagfs explain` prints, a line each. */
export function describeExplanation(
  explained: WireExplanation,
  telling: Telling,
): readonly string[] {
  const { what, bytes, state, refused, unreadable, outage } = explained
  const kind = bytes === undefined ? KINDS[what] : `${KINDS[what]}, ${formatSize(bytes)}`
  const all: readonly (readonly [label: string, words: readonly string[]])[] = [
    ['Path', [`${pathOf(explained.path, telling)} (${kind})`]],
    ['State', state === undefined ? [] : [state]],
    ['What', describeWhat(explained, telling.nowMs)],
    ['Where', describePlaces(explained)],
    ['Pinned', describePinned(explained, telling)],
    ['Waits', describeWaits(explained, telling.nowMs)],
    ['Name', describeName(explained)],
    ['Conflict', explained.conflicts.map(describeConflict)],
    ['Missing', explained.leftOut.map(describeLeftOut)],
    ['Refused', refused === undefined ? [] : [describeRefused(refused)]],
    ['Trouble', unreadable === undefined ? [] : [`what is in it cannot be read: ${unreadable}`]],
    ['Service', outage === undefined ? [] : [`not to be had for now: ${outage}`]],
    ['To do', remediesFor(explained, telling).map(({ command, does }) => `${command}  (${does})`)],
  ]
  return all.flatMap(([label, words]) => words.map((each) => `${`${label}:`.padEnd(10)}${each}`))
}

/** What a person can do about it, the first first. */
export function remediesFor(explained: WireExplanation, telling: Telling): readonly Remedy[] {
  const { what, path, conflicts, changes, inTrash, name, outage } = explained
  const drive = shellQuote(telling.called)
  const there = shellQuote(wordFor(path, telling))
  const isCoded = name?.why.some((each) => each === 'coded' || each === 'cut') === true
  const toSync = what === 'missing' || what === 'made-up' ? drive : there
  return [
    ...changes.flatMap((change) => remediesForChange(change, toSync, telling)),
    ...conflicts.map(({ other }) => ({
      command: `rm ${shellQuote(pathOf(other, telling))}`,
      does: 'when you have compared the two and do not want that one',
    })),
    ...inTrash.slice(0, 1).map((item) => remedyForTrashed(explained, item, drive)),
    ...(isCoded
      ? [
          {
            command: `mv ${shellQuote(pathOf(path, telling))} ${shellQuote(pathOf(PLACEHOLDER, telling))}`,
            does: `gives it a plain name: yours in the place of ${PLACEHOLDER}`,
          },
        ]
      : []),
    ...remediesForAbsence(explained, there),
    ...(what === 'drive' || outage !== undefined
      ? [{ command: `bagfs status ${drive}`, does: 'tells how the drive is' }]
      : []),
  ]
}

/** For a name that the person chooses. After the path of the drive: alone, it would be one in any directory. */
const PLACEHOLDER = 'NAME'

/** Where a folder goes on in another version, the one of before cannot have its name. */
function remedyForTrashed(
  { folder }: WireExplanation,
  item: WireExplanation['inTrash'][number],
  drive: string,
): Remedy {
  const command = `bagfs trash restore ${drive} ${shortIdOf(item)}`
  if (folder === undefined) return { command, does: 'brings it back' }
  if (item.why === 'deleted') return { command, does: 'brings the folder back' }
  const as = shellQuote(`${folder} (before)`)
  return { command: `${command} --as ${as}`, does: 'brings back the folder as it was before' }
}

/** For content that is not here; what is pinned is fetched without being asked for. */
function remediesForAbsence(explained: WireExplanation, path: string): readonly Remedy[] {
  const { state, places, outage, pin } = explained
  const isPinnedInVain = pin?.state === 'no-room' || pin?.state === 'missing'
  if (isPinnedInVain) return [{ command: `bagfs unpin ${path}`, does: 'gives the pin up' }]
  const isStored = state === 'stored' && places.includes('service')
  const isAway = isStored && !places.includes('cache') && outage === undefined
  if (!isAway || pin !== undefined) return []
  return [{ command: `bagfs warmup ${path}`, does: 'fetches it ahead' }]
}

function remediesForChange(
  { id, phase, failure }: WireItem,
  path: string,
  telling: Telling,
): readonly Remedy[] {
  if (phase === 'local') return []
  const drive = shellQuote(telling.called)
  const sync = { command: `bagfs sync ${path}`, does: 'does it now, or says why it cannot' }
  const cures = failure === undefined ? [] : (curesOf(telling)[failure.code] ?? [])
  if (failure?.waitsForUser !== true) return [...cures, sync]
  return [
    ...cures,
    { command: `bagfs outbox retry ${drive} ${id}`, does: 'tries it again' },
    {
      command: `bagfs outbox save ${drive} ${id} --to DIR`,
      does: 'copies the content to a directory',
    },
    { command: `bagfs outbox discard ${drive} ${id}`, does: 'gives the change up' },
  ]
}

/** What takes the cause of a failure away, by its code. */
function curesOf({ profile }: Telling): Readonly<Record<string, readonly Remedy[]>> {
  const [login, rm] =
    profile === undefined ? ['login', 'rm'] : [`login ${profile}`, `rm --profile ${profile}`]
  return {
    unauthorized: [{ command: `bagfs ${login}`, does: 'with a new token' }],
    'no-space': [{ command: `bagfs ${rm} NAME`, does: 'makes room in the account' }],
  }
}

const KINDS: Readonly<Record<WireExplanation['what'], string>> = {
  drive: 'the drive',
  file: 'file',
  folder: 'folder',
  directory: 'directory in a folder',
  link: 'link',
  special: 'fifo, socket or device',
  'made-up': 'made up by the drive',
  missing: 'not there',
}

const MADE_UP: Readonly<Record<NonNullable<WireExplanation['madeUp']>, string>> = {
  control: 'the drive tells here how it is and what waits; nothing of it is stored',
  change: 'the content of a change that the service does not have yet',
  trash: 'what was deleted or replaced, and is kept on this machine for a while',
  bags: 'any bag can be read in it by its id; it lists none',
  bag: 'a bag by its id, as the service hands it out (a folder is a zip)',
  volume: 'file managers read in it the name and the icon of the drive; nothing of it is stored',
}

function describeWhat(explained: WireExplanation, nowMs: number): readonly string[] {
  const { what, folder, inTrash, changes, madeUp } = explained
  const [trashed] = inTrash
  const isLocal = changes.some(({ phase }) => phase === 'local')
  const isDeleted = changes.some(({ kind }) => kind === 'delete')
  return [
    ...(what === 'drive' ? ['every bag of the account shows in it'] : []),
    ...(what === 'folder' ? ['one bag: what changes in it is stored together'] : []),
    ...(what === 'special' ? ['it stays on this machine: the service cannot have it'] : []),
    ...(what === 'folder' && isLocal ? ['it is sent when something is put into it'] : []),
    ...(what === 'file' && isLocal
      ? ['by its name it is litter of a program: it is not sent']
      : []),
    ...(madeUp === undefined ? [] : [MADE_UP[madeUp]]),
    ...describeFolder(folder, what),
    ...(isDeleted ? ['it was deleted here, and the service is still to be told'] : []),
    ...(trashed === undefined ? [] : [describeTrashed(trashed, folder, nowMs)]),
  ]
}

function describeTrashed(
  { why, deletedAtMs }: WireExplanation['inTrash'][number],
  folder: string | undefined,
  nowMs: number,
): string {
  const ago = `${formatTime(nowMs - deletedAtMs)} ago`
  if (folder === undefined) return `${why} ${ago}, and kept in the trash`
  return `a version of the folder ${folder} has it that was ${why} ${ago}, and is kept in the trash`
}

function describeFolder(
  folder: string | undefined,
  what: WireExplanation['what'],
): readonly string[] {
  if (folder === undefined || what === 'missing') return []
  return [`it is in the folder ${folder}${what === 'special' ? '' : ', and stored with it'}`]
}

function describePlaces(explained: WireExplanation): readonly string[] {
  const { places, isListed, hasOlder, madeUp } = explained
  const isUnlisted = isListed === false
  return [
    ...places.flatMap((place) => {
      if (place !== 'service') return PLACES[place] ?? describePart(explained)
      return madeUp === 'bag' && isUnlisted ? 'not in this account' : 'at the service'
    }),
    ...(places.includes('service') && places.length === 1
      ? ['not on this machine: it is fetched when it is read']
      : []),
    ...(isUnlisted && madeUp === undefined
      ? ['the service does not list it yet: other machines do not see it until then']
      : []),
    ...(hasOlder === true ? ['the service has the version of before'] : []),
  ]
}

const PLACES: Readonly<Partial<Record<WireExplanation['places'][number], string>>> = {
  cache: 'all of it in the cache of this machine: it can be read without the network',
  outbox: 'in the outbox of this machine, which keeps it until the service has it',
  'this-machine': 'on this machine only',
  trash: 'in the trash of this machine',
}

function describePart({ cached }: WireExplanation): string {
  const bytes = formatSize(cached?.bytes ?? 0)
  const more = cached?.isDownloading === true ? ', and more is on its way' : ''
  return `${bytes} of it in the cache of this machine${more}`
}

function describePinned(
  { pin, folder }: WireExplanation,
  { cacheBytes }: Telling,
): readonly string[] {
  if (pin === undefined) return []
  const by = folder === undefined ? '' : `with the folder ${pin.name}: `
  return [`${by}kept on this machine; ${describePinState(pin, cacheBytes)}`]
}

function describeWaits(explained: WireExplanation, nowMs: number): readonly string[] {
  const { state, changes, waitsFor } = explained
  return [
    ...(state === 'being written'
      ? ['for the program that writes it: it is sent when that closes it']
      : []),
    ...waitsFor.map(({ name, state: its }) => `for an earlier change, of ${name}: ${its}`),
    ...changes.filter(({ phase }) => phase !== 'local').map((item) => describeWait(item, nowMs)),
  ]
}

function describeWait(item: WireItem, nowMs: number): string {
  const { kind, phase, failure, isFolder, nextTryAtMs } = item
  if (failure?.waitsForUser === true) return `for you: ${failure.message}`
  if (failure !== undefined && nextTryAtMs !== undefined) {
    return `for the next try, in ${formatTime(nextTryAtMs - nowMs)}`
  }
  if (phase === 'confirmed') return 'for the version of before to be deleted at the service'
  if (kind === 'delete') return 'for the service to be told of the delete'
  if (phase !== 'held') return 'for the service to have it'
  return isFolder === true
    ? 'for the folder to rest: its changes are sent together'
    : 'for the rename that ends the save; without one it is sent after a minute'
}

function describeName({ name, madeUp }: WireExplanation): readonly string[] {
  if (name === undefined) return []
  const { service, why, others } = name
  if (madeUp === 'bag') return others.map((other) => `the drive shows it as ${other}`)
  const called = `the service calls it ${JSON.stringify(service)}`
  const beside = others.join(', ')
  return [
    ...(why.includes('coded')
      ? [`${called}, which cannot be a name here: it shows in a code`]
      : []),
    ...(why.includes('cut') ? [`${called}, which is too long for Linux: it shows cut`] : []),
    ...(why.includes('zip') ? [`${called}; folders show without .zip`] : []),
    ...(why.includes('older')
      ? [`an older bag of the same name: the newest has the plain name (${beside})`]
      : others.length > 0
        ? [`the newest of several bags of this name; the older ones are ${beside}`]
        : []),
  ]
}

function pathOf(path: string, { mountpoint }: Telling): string {
  return path === '' ? mountpoint : `${mountpoint}/${path}`
}

/** As `pathOf`, for commands of bagfs, which know a drive by its profile, too. */
function wordFor(path: string, telling: Telling): string {
  return telling.called.endsWith(':') ? `${telling.called}${path}` : pathOf(path, telling)
}
