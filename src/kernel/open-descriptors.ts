import { closeSync, openSync, readdirSync, readlinkSync, readSync, statSync } from 'node:fs'
import { findMount } from '../disk/find-mount.ts'
import type { Clock } from '../domain/clock.ts'

const BATCH = 64
const ACCESS_MODE = 0o3
const FLAGS = /^flags:\s+(\d+)$/m
const MOUNT_ID = /^mnt_id:\s+(\d+)$/m
const INODE = /^ino:\s+(\d+)$/m
/** How long a process that held nothing is taken at its count of descriptors, in milliseconds. */
const CLEARED_MS = 1_000
/** Processes that are remembered so; most of them ended long ago. */
const MOST_CLEARED = 4_096
/** So many process ids are asked for one by one. */
const FEW = 64
const LAST_PID = / (\d+)\n$/

/** A file of a mount, by what /proc tells of its open files. */
export interface MountedFile {
  readonly mountpoint: string
  readonly inode: number
  readonly path: string
}

/** By which thread, or process, a file was opened, and the last one that there was then. */
export interface Opening {
  readonly pid: number
  readonly lastPid: number | undefined
}

/** With the id of its mount; undefined where that is not known. */
type Sought = MountedFile & { readonly mountId: number | undefined }

/** A process that did not hold the file, by what was seen then. */
interface Cleared {
  readonly descriptors: number
  readonly atMs: number
}

/**
 * Tells whether some process still holds a descriptor open for writing on a file of the drive.
 *
 * The kernel sends FLUSH at each close, also when other descriptors of the same open file live on.
 * A shell that redirects a group of commands has such, or a parent of a forked program. libfuse's
 * high level does not tell which it is. At FLUSH the closing descriptor is gone from its process
 * already (filp_close), so whatever /proc still shows is another one. Where /proc cannot be read
 * the answer is false, which costs an upload too many and never one too few.
 *
 * A link in /proc/PID/fd must not be read. While a process is in exec, the kernel lets no other
 * process read the link (seen with Linux 6.18). Exec closes descriptors and so may wait for this
 * very FLUSH, or for another file system that hangs. fdinfo tells the mount and the inode as well,
 * and can always be read. It has the inode since Linux 5.14; before that the link is all there is.
 *
 * Reading every descriptor of every process takes longer than a small upload, and copying many
 * files asks at each one. Process ids grow. So of an open file whose opening is known, only the
 * process that opened it and those that were started since are read. One that was sent the
 * descriptor over a socket costs an upload too many.
 *
 * A process that never held a file here is not read again for a moment, while its number of
 * descriptors stays the same. Since Linux 6.2 the size of its directory tells that number. One that
 * closes a descriptor and opens another within that moment can cost an upload too many.
 */
export class OpenDescriptors {
  readonly #clock: Clock
  /** Whether this kernel tells how many descriptors a process has. */
  readonly #areCounted = (countDescriptors('self') ?? 0) > 0
  /** Cleaned of processes that ended by each look that finds nothing. */
  #cleared = new Map<string, Cleared>()
  /** Processes that were seen with a file of the drive; cleaned as well. */
  #holders = new Set<string>()
  /** Whether this kernel tells the inode of an open file. */
  readonly #hasInodes: boolean
  /** Of the drive's mount, once it is known. */
  #mountId: number | undefined

  constructor(deps: { readonly clock: Clock; readonly hasInodes?: boolean }) {
    this.#clock = deps.clock
    this.#hasInodes = deps.hasInodes ?? tellsInodes()
  }

  /** To be called when a file is opened: `opening` of a later look. */
  opened(pid: number): Opening {
    return { pid, lastPid: readLastPid() }
  }

  /** With `opening`, only descriptors of that open file are looked for; `closer` is the process that closes one. */
  async isHeldForWriting(
    file: MountedFile,
    shared?: { readonly opening: Opening; readonly closer: number },
  ): Promise<boolean> {
    this.#mountId ??= (await findMount(file.mountpoint))?.id
    const sought = { ...file, mountId: this.#mountId }
    const sharing = shared === undefined ? undefined : sharingProcesses(shared)
    if (sharing !== undefined) return this.#isHeldByOneOf(sharing, sought)
    // The drive itself holds none of its own files open.
    const own = String(process.pid)
    const processes = listNumbers('/proc').filter((pid) => pid !== own)
    if (await this.#isHeldByOneOf(processes, sought)) return true
    this.#forgetAllBut(new Set(processes))
    return false
  }

  async #isHeldByOneOf(processes: readonly string[], sought: Sought): Promise<boolean> {
    if (this.#cleared.size > MOST_CLEARED) this.#cleared.clear()
    for (let start = 0; start < processes.length; start += BATCH) {
      if (start > 0) await new Promise((resolve) => setImmediate(resolve))
      const batch = processes.slice(start, start + BATCH)
      if (batch.some((pid) => this.#holds(pid, sought))) return true
    }
    return false
  }

  #holds(pid: string, file: Sought): boolean {
    const descriptors = countDescriptors(pid)
    if (descriptors === undefined || this.#isCleared(pid, descriptors)) return false
    // A thread of the kernel.
    if (this.#areCounted && descriptors === 0) return false
    if (this.#holdsForWriting(pid, file)) {
      this.#holders.add(pid)
      this.#cleared.delete(pid)
      return true
    }
    if (!this.#holders.has(pid)) {
      this.#cleared.set(pid, { descriptors, atMs: this.#clock.now() })
    }
    return false
  }

  #holdsForWriting(pid: string, { mountId, inode, path }: Sought): boolean {
    return listNumbers(`/proc/${pid}/fd`).some((fd) => {
      if (!this.#hasInodes && linkOf(`/proc/${pid}/fd/${fd}`) !== path) return false
      const info = readInfo(`/proc/${pid}/fdinfo/${fd}`)
      if (info?.isWritable !== true) return false
      return !this.#hasInodes || (info.mountId === mountId && info.inode === inode)
    })
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

/** Processes that can share an open file; undefined where that is not known. */
function sharingProcesses({
  opening: { pid, lastPid },
  closer,
}: {
  readonly opening: Opening
  readonly closer: number
}): readonly string[] | undefined {
  const last = readLastPid()
  if (pid === 0 || closer === 0 || lastPid === undefined || last === undefined) return undefined
  // The ids began anew, or the thread that opened it has ended, and others of its process have not.
  if (last < lastPid || countDescriptors(String(pid)) === undefined) return undefined
  const started =
    last - lastPid <= FEW
      ? Array.from({ length: last - lastPid }, (_, at) => String(lastPid + 1 + at))
      : listNumbers('/proc').filter((each) => Number(each) > lastPid)
  return [...new Set([String(closer), String(pid), ...started])]
}

/** The id that was given to a process or thread last; undefined where the system does not tell it. */
function readLastPid(): number | undefined {
  const text = readBeginning('/proc/loadavg')
  const found = text === undefined ? undefined : LAST_PID.exec(text)?.[1]
  return found === undefined || found === '0' ? undefined : Number(found)
}

/** Whatever this process has open will do. */
function tellsInodes(): boolean {
  const folder = '/proc/self/fdinfo'
  return listNumbers(folder).some((fd) => readInfo(`${folder}/${fd}`)?.inode !== undefined)
}

/** How many descriptors a process has; undefined when it is gone or not ours to look at. */
function countDescriptors(pid: string): number | undefined {
  try {
    return statSync(`/proc/${pid}/fd`, { throwIfNoEntry: false })?.size
  } catch {
    return undefined
  }
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

interface DescriptorInfo {
  readonly isWritable: boolean
  readonly mountId: number | undefined
  readonly inode: number | undefined
}

/** The fields that are asked for come first; what follows is of special files. */
const beginning = Buffer.alloc(256)

/** What proc(5) tells of an open file; undefined where it is gone or not ours to read. */
function readInfo(path: string): DescriptorInfo | undefined {
  const text = readBeginning(path)
  if (text === undefined) return undefined
  const flags = Number.parseInt(FLAGS.exec(text)?.[1] ?? '0', 8)
  return {
    isWritable: (flags & ACCESS_MODE) !== 0,
    mountId: numberIn(MOUNT_ID.exec(text)),
    inode: numberIn(INODE.exec(text)),
  }
}

/** What a file of /proc begins with; undefined where it is gone or not ours to read. */
function readBeginning(path: string): string | undefined {
  let fd: number | undefined
  try {
    fd = openSync(path, 'r')
    return beginning.toString('latin1', 0, readSync(fd, beginning, 0, beginning.length, 0))
  } catch {
    return undefined
  } finally {
    if (fd !== undefined) closeSync(fd)
  }
}

function numberIn(found: RegExpExecArray | null): number | undefined {
  return found === null ? undefined : Number(found[1])
}
