import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import type { Clock } from '../domain/clock.ts'

const BATCH = 64
const ACCESS_MODE = 0o3
/** How long a process that held nothing is taken at its count of descriptors, in milliseconds. */
const CLEARED_MS = 1_000

/** A process that did not hold the file, by what was seen then. */
interface Cleared {
  readonly descriptors: number
  readonly atMs: number
}

/**
 * Tells whether some process still holds a descriptor open for writing on a file of the drive.
 *
 * The kernel sends FLUSH at each close, also when other descriptors of the same open file live on
 * (a shell that redirects a group of commands, a parent of a forked program), and libfuse's high
 * level does not tell which it is. At FLUSH the closing descriptor is gone from its process already
 * (filp_close), so whatever /proc still shows is another one. Where /proc cannot be read the answer
 * is false, which costs an upload too many and never one too few.
 *
 * Reading every link of every process takes longer than a small upload, and copying many files asks
 * at each one. So a process that never held a file here is not read again for a moment, as long as
 * it has as many descriptors as before (the size of its directory, since Linux 6.2). One that closes
 * a descriptor and opens another within that moment can cost an upload too many.
 */
export class OpenDescriptors {
  readonly #clock: Clock
  /** Whether this kernel tells how many descriptors a process has. */
  readonly #areCounted = (countDescriptors('self') ?? 0) > 0
  /** Cleaned of processes that ended by each look that finds nothing. */
  #cleared = new Map<string, Cleared>()
  /** Processes that were seen with a file of the drive; cleaned as well. */
  #holders = new Set<string>()

  constructor(deps: { readonly clock: Clock }) {
    this.#clock = deps.clock
  }

  async isHeldForWriting(path: string): Promise<boolean> {
    // The drive itself holds none of its own files open.
    const own = String(process.pid)
    const processes = listNumbers('/proc').filter((pid) => pid !== own)
    for (let start = 0; start < processes.length; start += BATCH) {
      if (start > 0) await new Promise((resolve) => setImmediate(resolve))
      const batch = processes.slice(start, start + BATCH)
      if (batch.some((pid) => this.#holds(pid, path))) return true
    }
    this.#forgetAllBut(new Set(processes))
    return false
  }

  #holds(pid: string, path: string): boolean {
    const descriptors = countDescriptors(pid)
    if (descriptors === undefined || this.#isCleared(pid, descriptors)) return false
    // A thread of the kernel.
    if (this.#areCounted && descriptors === 0) return false
    if (holdsForWriting(pid, path)) {
      this.#holders.add(pid)
      this.#cleared.delete(pid)
      return true
    }
    if (!this.#holders.has(pid)) {
      this.#cleared.set(pid, { descriptors, atMs: this.#clock.now() })
    }
    return false
  }

  #isCleared(pid: string, descriptors: number): boolean {
    const cleared = this.#cleared.get(pid)
    if (!this.#areCounted || cleared?.descriptors !== descriptors) return false
    const age = this.#clock.now() - cleared.atMs
    return age >= 0 && age < CLEARED_MS
  }

  #forgetAllBut(living: ReadonlySet<string>): void {
    this.#cleared = new Map([...this.#cleared].filter(([pid]) => living.has(pid)))
    this.#holders = new Set([...this.#holders].filter((pid) => living.has(pid)))
  }
}

/** How many descriptors a process has; undefined when it is gone or not ours to look at. */
function countDescriptors(pid: string): number | undefined {
  try {
    return statSync(`/proc/${pid}/fd`, { throwIfNoEntry: false })?.size
  } catch {
    return undefined
  }
}

function holdsForWriting(pid: string, path: string): boolean {
  const folder = `/proc/${pid}/fd`
  return listNumbers(folder).some(
    (fd) => linkOf(`${folder}/${fd}`) === path && isForWriting(`/proc/${pid}/fdinfo/${fd}`),
  )
}

/** Names that are numbers; none where the directory is gone or not ours to read. */
function listNumbers(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => /^\d+$/.test(name))
  } catch {
    return []
  }
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

function isForWriting(fdinfo: string): boolean {
  try {
    const flags = /^flags:\s+([0-7]+)$/m.exec(readFileSync(fdinfo, 'latin1'))?.[1]
    return flags !== undefined && (Number.parseInt(flags, 8) & ACCESS_MODE) !== 0
  } catch {
    return false
  }
}
