import { formatSize } from '../config/sizes.ts'
import type { DriveStatus, WireItem, WireTrashItem } from '../control/protocol.ts'
import { isOwed } from '../control/status.ts'
import { transfersOf, type Transfer, type TransferSpeeds } from '../control/transfer-speeds.ts'
import { toPrintable } from '../domain/printable.ts'
import { describeLeftOut } from '../drive/folders/left-out.ts'
import { describeConflict } from '../drive/root/conflicts.ts'
import {
  describeCache,
  describeChange,
  describeDamaged,
  describeHolder,
  describeListing,
  describeRefused,
  describeTrash,
  MODES,
  summariseOutbox,
} from '../mount/status-words.ts'
import { formatTime } from '../mount/format-time.ts'
import { describeHits } from '../mount/space-words.ts'
import { describePace, describeProgress, describeSpeed } from '../mount/transfer-words.ts'
import { percentOf } from '../outbox/words.ts'
import { HISTORY_MS, type TrafficHistory } from './traffic-history.ts'
import type {
  ChangeRow,
  MeterRow,
  PageView,
  RowsView,
  SpeedView,
  TransferRow,
  TrashRow,
} from './view.ts'
import type { Sighting } from './sighting.ts'

/** What was measured over time. */
export interface Measured {
  readonly history: TrafficHistory
  readonly speeds: TransferSpeeds
}

/** More are for the command line. */
const MOST_ROWS = 100
/** From here on a meter warns. */
const FULL_SHARE = 0.9
/** The least height of the chart, so that next to nothing looks like it. */
const LEAST_SCALE = 100_000

/** Puts what was seen into words. */
export function makeView(seen: Sighting, measured: Measured, nowMs: number): PageView {
  const { status, outbox } = seen
  const transfers = status === undefined ? [] : transfersOf(status)
  return {
    mountpoint: toPrintable(seen.mountpoint),
    ...stateOf(seen),
    notices: (status === undefined ? [] : noticesOf(status)).map(toPrintable),
    transfers: transfers.map((transfer) => transferRow(transfer, measured.speeds)),
    ...(status?.traffic === undefined ? {} : { speed: speedOf(measured.history, nowMs) }),
    outbox: rowsOf(outbox.filter(isOwed), (item) => changeRow(item, nowMs), 'bagfs outbox'),
    trash: trashOf(seen, nowMs),
    meters: status === undefined ? [] : metersOf(status),
    facts: status === undefined ? [] : factsOf(status, nowMs),
  }
}

type StateView = Pick<PageView, 'presence' | 'mood' | 'headline' | 'advice'>

function stateOf({ status, trouble, outbox, mountAgain }: Sighting): StateView {
  if (trouble !== undefined) {
    const { hint } = trouble.facts
    const advice = hint === undefined ? {} : { advice: toPrintable(hint) }
    return { presence: 'silent', mood: 'bad', headline: toPrintable(trouble.message), ...advice }
  }
  const owed = outbox.filter(isOwed)
  const waiting = summariseOutbox(outbox, '')
  if (status === undefined) {
    const kept = owed.length === 0 ? '' : ` (${waiting.replace(/\.$/, '')})`
    const advice = `Mount it again, and this page goes on by itself: ${toPrintable(mountAgain)}${kept}`
    return { presence: 'gone', mood: 'bad', headline: 'The drive is not mounted.', advice }
  }
  const isStuck = owed.some(({ failure }) => failure !== undefined)
  const outage = status.listing.lastError?.message
  if (owed.length === 0 && outage === undefined) {
    return { presence: 'here', mood: 'good', headline: 'Everything is stored.' }
  }
  const headline = owed.length === 0 ? 'Everything is stored.' : waiting
  const mood = isStuck || outage !== undefined ? 'bad' : 'busy'
  const advice = outage === undefined ? {} : { advice: awayWords(outage) }
  return { presence: 'here', mood, headline, ...advice }
}

function awayWords(outage: string): string {
  return toPrintable(`The service was not to be had a moment ago: ${outage}`)
}

function noticesOf(status: DriveStatus): readonly string[] {
  return [
    ...(status.conflicts ?? []).map(describeConflict),
    ...(status.leftOut ?? []).map(describeLeftOut),
    ...(status.refused ?? []).map(describeRefused),
    ...status.room.map(describeHolder),
    ...status.damaged.map(describeDamaged),
  ]
}

function transferRow(transfer: Transfer, speeds: TransferSpeeds): TransferRow {
  const { key, name, direction, bytes, totalBytes } = transfer
  const parts = [describeProgress(transfer), ...describePace(transfer, speeds.of(transfer))]
  const sent = totalBytes === undefined ? undefined : { sentBytes: bytes, totalBytes }
  return {
    key,
    name: toPrintable(name),
    direction,
    ...(sent === undefined ? {} : { percent: percentOf(sent) }),
    text: parts.join(' · '),
  }
}

function speedOf(history: TrafficHistory, nowMs: number): SpeedView {
  const steps = history.steps()
  const peak = Math.max(0, ...steps.flatMap(({ up, down }) => [up, down]))
  const scale = niceAbove(peak)
  const now = history.now(nowMs)
  const [upText, downText] = [describeSpeed(now.up), describeSpeed(now.down)]
  const ago = ({ atMs }: { readonly atMs: number }): number => Math.round((nowMs - atMs) / 100) / 10
  return {
    spanS: HISTORY_MS / 1000,
    points: steps.map((step) => [ago(step), Math.round(step.up), Math.round(step.down)] as const),
    scale,
    scaleText: describeSpeed(scale),
    upText,
    downText,
    summary: `Now ${upText} up and ${downText} down. The most in the last ${formatTime(HISTORY_MS)} was ${describeSpeed(peak)}.`,
  }
}

/** 1, 2 or 5 times a power of ten: what is easily read at the edge of a chart. */
function niceAbove(peak: number): number {
  const least = Math.max(peak, LEAST_SCALE)
  const power = 10 ** Math.floor(Math.log10(least))
  return ([1, 2, 5, 10].find((each) => each * power >= least) ?? 10) * power
}

function rowsOf<Item, Row>(
  items: readonly Item[],
  toRow: (item: Item) => Row,
  command: string,
): RowsView<Row> {
  const more = Math.max(0, items.length - MOST_ROWS)
  const note = more === 0 ? '' : `And ${more} more: ${command} lists them all.`
  return { rows: items.slice(0, MOST_ROWS).map(toRow), more, note }
}

function changeRow(item: WireItem, nowMs: number): ChangeRow {
  const { id, name, phase, failure } = item
  const { what, state } = describeChange(item, nowMs)
  return {
    id,
    name: toPrintable(name),
    kind: item.kind,
    what: item.isFolder === true ? `folder, ${what}` : what,
    state: toPrintable(state),
    tone: failure === undefined ? 'usual' : failure.waitsForUser ? 'stuck' : 'failed',
    canRetry: failure !== undefined,
    canDiscard: phase !== 'confirmed',
  }
}

function trashOf({ status, trash }: Sighting, nowMs: number): RowsView<TrashRow> {
  const rows = rowsOf(trash, (item) => trashRow(item, nowMs), 'bagfs trash')
  const room = status?.trash === undefined ? '' : describeTrash(status.trash)
  return { ...rows, note: [room, rows.note].filter((text) => text !== '').join('. ') }
}

function trashRow(
  { bagId, name, why, isFolder, length, deletedAtMs }: WireTrashItem,
  nowMs: number,
) {
  const kind = isFolder ? ['folder'] : []
  const parts = [`${why} ${formatTime(nowMs - deletedAtMs)} ago`, ...kind, formatSize(length)]
  return { id: bagId, name: toPrintable(name), isFolder, text: parts.join(' · ') }
}

function metersOf({ space, cache }: DriveStatus): readonly MeterRow[] {
  const words = [describeCache(cache), describeHits(cache) ?? []].flat().join(' · ')
  const meters = [meter('Cache', cache.bytes, cache.maxBytes, words)]
  if (space === undefined) return meters
  const { capacity, free } = space
  const used = Math.max(0, capacity - free)
  const text = `${formatSize(used)} of ${formatSize(capacity)} · ${formatSize(free)} free`
  return [{ ...meter('Account', used, capacity, text), isFull: isFull(used, capacity) }, ...meters]
}

/** A cache is full by design: only an account warns. */
function meter(label: string, used: number, most: number, text: string): MeterRow {
  return { label, text, share: shareOf(used, most), isFull: false }
}

function isFull(used: number, most: number): boolean {
  return shareOf(used, most) >= FULL_SHARE
}

function shareOf(used: number, most: number): number {
  return most <= 0 ? 1 : Math.min(1, used / most)
}

function factsOf(status: DriveStatus, nowMs: number): PageView['facts'] {
  const facts = [
    ['Service', status.service],
    ['Account', status.account],
    ['Mode', MODES[status.mode]],
    ['Listing', describeListing(status.listing, nowMs)],
    ...(status.bridge === undefined ? [] : [['Bridge', status.bridge]]),
    ['Process', String(status.pid)],
  ] as const
  return facts.map(([label = '', value = '']) => [label, toPrintable(value)] as const)
}
