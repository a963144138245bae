import { readdirSync, readlinkSync } from 'node:fs'
import koffi from 'koffi'

/** Numbers of Linux, the same on every machine that Node runs on (pidfd_open(2), pidfd_getfd(2)). */
const PIDFD_OPEN = 434
const PIDFD_GETFD = 438

/**
 * A second descriptor of what another process has open at a path: it stays open when that process is killed. So the kernel
 * takes a drive whose /dev/fuse it is for alive, as it does while a thread of the drive waits for the kernel.
 */
export function borrowDescriptor(pid: number, path: string): number {
  const theirs = readdirSync(`/proc/${pid}/fd`).find((fd) => linkOf(pid, fd) === path)
  if (theirs === undefined) throw new Error(`Process ${pid} does not have ${path} open.`)
  const syscall = koffi.load(null).func('long syscall(long, ...)') as (
    ...args: readonly (string | number)[]
  ) => number
  const call = (number: number, ...args: readonly number[]): number => {
    const result = syscall(number, ...args.flatMap((arg) => ['int', arg]))
    if (result < 0) throw new Error(`System call ${number} failed: errno ${koffi.errno()}.`)
    return result
  }
  return call(PIDFD_GETFD, call(PIDFD_OPEN, pid, 0), Number(theirs), 0)
}

/** Undefined for one that is closed meanwhile. */
function linkOf(pid: number, fd: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/fd/${fd}`)
  } catch {
    return undefined
  }
}
