import { formatSize } from '../config/sizes.ts'
import type { DriveStatus, WireItem } from '../control/protocol.ts'
import { isOwed } from '../control/status.ts'
import { withAside } from '../domain/sentences.ts'
import { describeConflict } from '../drive/root/conflicts.ts'
import { describeLeftOut } from '../drive/folders/left-out.ts'
import { transfersOf, type Transfer, type TransferSpeeds } from '../control/transfer-speeds.ts'
import { formatTime } from './format-time.ts'
import { describePins } from './pin-words.ts'
import { describeHits, describeSpace } from './space-words.ts'
import { describeTransfer } from './transfer-words.ts'
import type { RefusedChanges } from '../drive/space/room.ts'

/** The status of a drive for people: what `bagfs status` prints and `.bagfs/status` holds. */
export function describeStatus(
  status: DriveStatus,
  nowMs: number,
  speeds?: TransferSpeeds,
): string {
  const transfers = transfersOf(status)
  const inWords = (way: Transfer['direction']): readonly string[] =>
    transfers
      .filter(({ direction }) => direction === way)
      .map((transfer) => describeTransfer(transfer, speeds))
  const lines = [
    `Drive:    ${status.mountpoint} (${MODES[status.mode]})`,
    ...describeProfile(status.profile),
    `Service:  ${status.service}, account ${status.account}`,
    ...(status.space === undefined ? [] : [`Account:  ${describeSpace(status.space)}`]),
    ...(status.bridge === undefined ? [] : [`Bridge:   ${status.bridge}`]),
    ...(status.passthrough === undefined
      ? []
      : [`Reading:  ${describePassthrough(status.passthrough)}`]),
    `Listing:  ${describeListing(status.listing, nowMs)}`,
    `Cache:    ${[describeCache(status.cache), describeHits(status.cache) ?? []].flat().join(', ')}`,
    ...describeSlow(status.pace ?? {}).map((words) => `Slow:     ${words}`),
    ...inWords('up').map((words) => `Upload:   ${words}`),
    ...inWords('down').map((words) => `Download: ${words}`),
    ...describePins(status.pins ?? [], status.cache.maxBytes),
    ...(status.trash === undefined ? [] : [`Trash:    ${describeTrash(status.trash)}`]),
    `Outbox:   ${summariseOutbox(status.outbox)}`,
    ...status.outbox.map((item) => `  ${describeItem(item, nowMs)}`),
    ...(status.conflicts ?? []).map((conflict) => `Conflict: ${describeConflict(conflict)}`),
    ...(status.leftOut ?? []).map((file) => `Missing:  ${describeLeftOut(file)}`),
    ...status.room.map((holder) => `Written:  ${describeHolder(holder)}`),
    ...(status.refused ?? []).map((refused) => `Refused:  ${describeRefused(refused)}`),
    ...status.damaged.map((path) => `Damaged:  ${describeDamaged(path)}`),
  ]
  return lines.map((line) => `${line}\n`).join('')
}

/** A line, where the account has a name here. */
export function describeProfile(profile: string | undefined): readonly string[] {
  return profile === undefined ? [] : [`Profile:  ${profile}`]
}

export const MODES: Readonly<Record<DriveStatus['mode'], string>> = {
  through: 'closing a file waits for the service',
  back: 'closing a file waits for the local disk; uploads follow',
  'read-only': 'read-only',
}

/** From here on a person notices it. */
const SLOW_SERVICE_MS = 1_000
const SLOW_DRIVE_MS = 100

/** What keeps programs waiting, if anything does: `the service, or the way to it: 3.0 s a request of late` */
export function describeSlow({
  serviceMs = 0,
  driveMs = 0,
}: NonNullable<DriveStatus['pace']>): readonly string[] {
  const service = `the service, or the way to it: ${inSeconds(serviceMs)} a request of late`
  const drive = `this machine, or its disk: ${inSeconds(driveMs)} an operation of late`
  return [
    ...(serviceMs >= SLOW_SERVICE_MS ? [service] : []),
    ...(driveMs >= SLOW_DRIVE_MS ? [drive] : []),
  ]
}

/** `0.3 s` */
function inSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

/** `by the drive; no passthrough: only root may have it` */
export function describePassthrough({
  active,
  reason,
}: NonNullable<DriveStatus['passthrough']>): string {
  if (active) return 'passthrough: the kernel reads what is cached by itself'
  return `by the drive; no passthrough: ${reason ?? 'off'}`
}

export function describeListing(listing: DriveStatus['listing'], nowMs: number): string {
  const { ageMs, records, lastError } = listing
  const count = records === 1 ? '1 bag' : `${records} bags`
  const age = ageMs === null ? 'none yet' : `${count}, ${formatTime(ageMs)} old`
  if (lastError === undefined) return age
  const error = withAside(lastError.message, `${formatTime(nowMs - lastError.atMs)} ago`)
  return `${age}; not to be had for now: ${error}`
}

/** `1.2 GB of 10 GB, 34 bags` */
export function describeCache(cache: {
  readonly bytes: number
  readonly maxBytes?: number
  readonly bags: number
}): string {
  const { bytes, maxBytes, bags } = cache
  const of = maxBytes === undefined ? '' : ` of ${formatSize(maxBytes)}`
  return `${formatSize(bytes)}${of}, ${bags === 1 ? '1 bag' : `${bags} bags`}`
}

/** `3 items, 12 MB, each for 24 h; 2 had to go for want of room` */
export function describeTrash(trash: NonNullable<DriveStatus['trash']>): string {
  const { items, bytes, keptMs, givenUp, notKept } = trash
  const count = items === 1 ? '1 item' : `${items} items`
  const parts = [
    keptMs === 0 ? 'off' : `${count}, ${formatSize(bytes)}, each kept for ${formatTime(keptMs)}`,
    ...(givenUp === 0 ? [] : [`${givenUp} had to go for want of room`]),
    ...(notKept === 0 ? [] : [`${notKept} deleted and not kept (see the log)`]),
  ]
  return parts.join('; ')
}

/** `big.bin holds 12 MB of the account` */
export function describeHolder({ name, bytes }: DriveStatus['room'][number]): string {
  const what = name === '' ? 'a file that was deleted while it is open' : name
  return `${what} holds ${formatSize(bytes)} of the account until it is closed and stored`
}

/** `2 changes wait (14 MB), 1 failed and waits for you (bagfs outbox).`; `where` is what helps with those. */
export function summariseOutbox(items: readonly WireItem[], where = ' (bagfs outbox)'): string {
  const owed = items.filter(isOwed)
  if (items.length === 0) return 'empty: everything is stored.'
  if (owed.length === 0) return 'nothing waits; what is listed stays on this machine.'
  const bytes = owed.reduce((sum, item) => sum + (item.bytes ?? 0), 0)
  const parts = [
    `${owed.length === 1 ? '1 change waits' : `${owed.length} changes wait`} (${formatSize(bytes)})`,
  ]
  const failed = owed.filter(({ failure }) => failure?.waitsForUser === false).length
  const stuck = owed.filter(({ failure }) => failure?.waitsForUser === true).length
  if (failed > 0) parts.push(`${failed} failed and will be tried again`)
  if (stuck > 0) parts.push(`${stuck} failed and ${stuck === 1 ? 'waits' : 'wait'} for you${where}`)
  return `${parts.join(', ')}.`
}

/** `changes of photos: its new version needs 11 MB beside the old one, and 9 MB are left ...` */
export function describeRefused({ name, neededBytes, leftBytes }: RefusedChanges): string {
  const needs = `its new version needs ${formatSize(neededBytes)} beside the old one`
  const wayOut = 'delete something from it or the account, or get more space'
  return `changes of ${name}: ${needs}, and ${formatSize(leftBytes)} are left; ${wayOut}`
}

/** `changes that could not be read are kept in /...` */
export function describeDamaged(path: string): string {
  return `changes that could not be read are kept in ${path}`
}

/** `report.pdf  12 kB  failed: ... (will be tried again), tried 3 times, next in 12 s` */
export function describeItem(item: WireItem, nowMs: number): string {
  const { what, state } = describeChange(item, nowMs)
  return `${item.name}  ${what}  ${state}`
}

/** What a change brings (`12 kB`), and how it is: `waiting`, `failed: ... (will be tried again), next in 12 s`. */
export function describeChange(
  item: WireItem,
  nowMs: number,
): { readonly what: string; readonly state: string } {
  const { kind, bytes, state, failure, nextTryAtMs } = item
  const what = kind === 'delete' ? 'to be deleted' : bytes === undefined ? '-' : formatSize(bytes)
  const tries = failure === undefined || failure.tries < 2 ? '' : `, tried ${failure.tries} times`
  const next =
    nextTryAtMs === undefined || nextTryAtMs <= nowMs
      ? ''
      : `, next in ${formatTime(nextTryAtMs - nowMs)}`
  return { what, state: `${state}${tries}${next}` }
}
