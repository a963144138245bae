import { constants } from 'node:os'
import { readProcFileNow } from '../../disk/process-stat.ts'

const { signals } = constants
/** Signals that end no program by themselves. */
const HARMLESS = maskOf([
  signals.SIGCHLD,
  signals.SIGCONT,
  signals.SIGSTOP,
  signals.SIGTSTP,
  signals.SIGTTIN,
  signals.SIGTTOU,
  signals.SIGURG,
  signals.SIGWINCH,
])
const KILL = maskOf([signals.SIGKILL])
/** By these a person, or the system, asks a program to stop what it does. */
const STOP = maskOf([signals.SIGINT, signals.SIGTERM, signals.SIGQUIT, signals.SIGHUP])

/**
 * True when a signal that waits for a thread will end it or asks it to stop, and where that cannot be told. Any other
 * signal that the program handles (of a timer, of a child) is no reason to break off what it waits for: on a local disk
 * it never gets EINTR, and few are ready for that.
 */
export function isToStop(pid: number): boolean {
  const status = readProcFileNow(`${pid}/status`)
  // It is gone, or in a namespace that this process cannot see.
  if (status === undefined) return true
  const [own, shared, blocked, ignored, caught] = [
    'SigPnd',
    'ShdPnd',
    'SigBlk',
    'SigIgn',
    'SigCgt',
  ].map((field) => maskIn(status, field))
  if (own === undefined || shared === undefined) return true
  const pending = own | shared
  const unheard = (blocked ?? 0n) | (ignored ?? 0n) | HARMLESS
  const survived = unheard | ((caught ?? 0n) & ~STOP)
  return (pending & KILL) !== 0n || (pending & ~survived) !== 0n
}

function maskIn(status: string, field: string): bigint | undefined {
  const digits = new RegExp(`^${field}:\\s+([0-9a-f]+)$`, 'm').exec(status)?.[1]
  return digits === undefined ? undefined : BigInt(`0x${digits}`)
}

function maskOf(numbers: readonly number[]): bigint {
  return numbers.reduce((mask, signal) => mask | (1n << BigInt(signal - 1)), 0n)
}
