import { formatSize } from '../config/sizes.ts'
import type { WirePin } from '../control/protocol.ts'

/** As many as a status tells of one by one. */
const MOST = 10

/** What is pinned, for people: how much of it is here, and a line for each that is not. `maxBytes` is the cache's limit. */
export function describePins(pins: readonly WirePin[], maxBytes: number): readonly string[] {
  if (pins.length === 0) return []
  const away = pins.filter(({ state }) => state !== 'here')
  const sum = (field: 'bytes' | 'hereBytes'): string =>
    formatSize(pins.reduce((bytes, each) => bytes + each[field], 0))
  const here =
    away.length === 0
      ? `${count(pins)}, ${sum('bytes')}: all here, to be read offline`
      : `${pins.length - away.length} of ${count(pins)} all here, to be read offline (${sum('hereBytes')} of ${sum('bytes')})`
  const more = away.length - MOST
  return [
    `Pinned:   ${here}`,
    ...away.slice(0, MOST).map((each) => `  ${describePin(each, maxBytes)}`),
    ...(more > 0 ? [`  and ${more} more (bagfs pin --list)`] : []),
  ]
}

/** `film.mkv  12 GB  not fetched: ...` */
export function describePin(pin: WirePin, maxBytes: number): string {
  return `${pin.name}  ${formatSize(pin.bytes)}  ${describePinState(pin, maxBytes)}`
}

/** How much of it is here, and what becomes of the rest. */
export function describePinState(pin: WirePin, maxBytes: number): string {
  const here = `${formatSize(pin.hereBytes)} here`
  switch (pin.state) {
    case 'here':
      return 'all here'
    case 'coming':
      return `${here}, the rest is being fetched`
    case 'waits':
      return `${here}, the rest is tried again: ${pin.reason ?? 'the last try failed'}`
    case 'missing':
      return 'nothing has this name now; what gets it is fetched, until it is unpinned'
    case 'no-room':
      return `${here}, the rest is not fetched: ${describeLack(pin, maxBytes)}`
  }
}

function describeLack({ lacks }: WirePin, maxBytes: number): string {
  if (lacks === 'disk') {
    return 'the local disk has no room for it above --min-free; make room, or unpin something'
  }
  return `all that is pinned does not fit into the cache of ${formatSize(maxBytes)}; mount with a larger --cache-size, or unpin something`
}

function count(pins: readonly WirePin[]): string {
  return pins.length === 1 ? '1 name' : `${pins.length} names`
}
