const US_PER_S = 1_000_000
const NS_PER_US = 1_000

/** The granularity of times here, in ns: what a double has room for. The kernel is told, and gives no finer ones. */
export const TIME_GRANULARITY_NS = NS_PER_US

/** A time in milliseconds as whole microseconds. */
export function toMicroseconds(ms: number): number {
  return Math.round(ms * 1000)
}

/** The whole seconds of a time in microseconds; before 1970 they are less than none. */
export function secondsOf(us: number): number {
  return Math.floor(us / US_PER_S)
}

export function nanosecondsOf(us: number): number {
  return (us - secondsOf(us) * US_PER_S) * NS_PER_US
}

/** A time of the kernel in milliseconds. */
export function toMilliseconds(seconds: number, ns: number): number {
  return seconds * 1000 + Math.floor(ns / NS_PER_US) / 1000
}
