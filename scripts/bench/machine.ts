import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

const SAMPLE_MS = 300
/** Share of the processors that others may use for a run to count as quiet. */
const QUIET_SHARE = 0.2
const PATIENCE_MS = 2_000

/** How the machine was while the benches ran. */
export class Machine {
  #starts = 0
  #busyStarts = 0
  readonly #canDropCaches = process.getuid?.() === 0

  /** Waits, for a while, until others leave the processors alone. */
  async quiet(): Promise<void> {
    this.#starts += 1
    const deadline = Date.now() + PATIENCE_MS
    while (Date.now() < deadline) {
      if ((await busyShare()) <= QUIET_SHARE) return
    }
    this.#busyStarts += 1
  }

  /** Writes back and empties the kernel's page cache, names included; needs root. */
  dropCaches(): void {
    execFileSync('sync', { timeout: 60_000 })
    if (this.#canDropCaches) writeFileSync('/proc/sys/vm/drop_caches', '3')
  }

  describe(): string {
    const gib = Math.round(totalmem() / 2 ** 30)
    const caches = this.#canDropCaches ? '' : ' Not root: the page cache was never dropped.'
    return (
      `${cpus().length} processors, ${gib} GiB, Linux ${release()}, Node ${process.version}; ` +
      `${this.#busyStarts} of ${this.#starts} runs began while others used more than ` +
      `${100 * QUIET_SHARE} % of the processors.${caches}`
    )
  }
}

async function busyShare(): Promise<number> {
  const before = processorTimes()
  await sleep(SAMPLE_MS)
  const after = processorTimes()
  const all = after.all - before.all
  return all === 0 ? 0 : 1 - (after.idle - before.idle) / all
}

function processorTimes(): { readonly all: number; readonly idle: number } {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n', 1)
  const times = line.trim().split(/\s+/).slice(1).map(Number)
  // user nice system idle iowait ...: waiting for the disk is not work.
  return { all: sum(times), idle: (times[3] ?? 0) + (times[4] ?? 0) }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

/** Memory of a process in MB: now, and the most it ever had. Undefined once it has ended. */
export function memoryIfRunning(
  pid: number,
): { readonly nowMb: number; readonly mostMb: number } | undefined {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const mb = (field: string): number | undefined => {
    const found = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]
    return found === undefined ? undefined : (Number(found) * 1024) / 1e6
  }
  const [nowMb, mostMb] = [mb('VmRSS'), mb('VmHWM')]
  return nowMb === undefined || mostMb === undefined ? undefined : { nowMb, mostMb }
}

/** As `memoryIfRunning`, of a process that must be there. */
export function memoryOf(pid: number): { readonly nowMb: number; readonly mostMb: number } {
  const memory = memoryIfRunning(pid)
  if (memory === undefined) throw new Error(`/proc/${pid}/status tells no memory.`)
  return memory
}
