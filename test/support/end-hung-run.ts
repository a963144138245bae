import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { Reporter, TestCase, TestModule } from 'vitest/node'

/** Longer than any test, any hook, or the loading of a file may take (`testTimeout`, `hookTimeout`). */
const LIMIT_MS = 1_800_000
/** A test that ends by its own limit has its teardown then. */
const BEYOND_LIMIT_MS = 180_000
const LOOK_EVERY_MS = 10_000

interface Doing {
  readonly what: string
  readonly limitMs: number
  readonly sinceMs: number
}

/**
 * Ends a run that hangs, and tells in which test. Vitest's limits are timers in the process of the test. They never run while
 * that process waits in a system call for a drive, or turns in a loop.
 */
export default class EndHungRun implements Reporter {
  readonly #doing = new Map<string, Doing>()
  #look: NodeJS.Timeout | undefined

  onTestRunStart(): void {
    this.#look = setInterval(() => {
      this.#endIfHung()
    }, LOOK_EVERY_MS)
    this.#look.unref()
  }

  onTestRunEnd(): void {
    clearInterval(this.#look)
  }

  /** The process of the tests waits until this one has heard of a file, and of no later step. */
  onTestModuleQueued(module: TestModule): void {
    this.#note(module, 'its first test, or what comes before', LIMIT_MS)
  }

  onTestCaseReady(test: TestCase): void {
    this.#note(test.module, test.fullName, test.options.timeout ?? LIMIT_MS)
  }

  onTestCaseResult(test: TestCase): void {
    this.#note(test.module, `what follows "${test.fullName}"`, LIMIT_MS)
  }

  onTestModuleEnd({ moduleId }: TestModule): void {
    this.#doing.delete(moduleId)
  }

  #note({ moduleId }: TestModule, what: string, limitMs: number): void {
    this.#doing.set(moduleId, { what, limitMs, sinceMs: performance.now() })
  }

  #endIfHung(): void {
    const nowMs = performance.now()
    const hung = [...this.#doing].filter(
      ([, { sinceMs, limitMs }]) => nowMs > sinceMs + limitMs + BEYOND_LIMIT_MS,
    )
    if (hung.length === 0) return
    for (const [moduleId, { what }] of hung) console.error(`\n*** HUNG: ${moduleId}: ${what} ***`)
    endAll()
  }
}

/** What waits for a drive ends only when the kernel is told to end the drive's connection; the rest ends by a signal. */
function endAll(): never {
  const processes = descendants()
  console.error(processes.map(({ line }) => line).join('\n'))
  for (const mountpoint of drivesOfTests()) tryToRun('umount', ['-f', '-l', '--', mountpoint])
  for (const { pid } of processes) tryToKill(pid)
  process.exit(1)
}

function drivesOfTests(): readonly string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => line.includes(' - fuse'))
    .map((line) => line.split(' ')[4] ?? '')
    .filter((mountpoint) => mountpoint.startsWith(`${tmpdir()}/`))
}

interface RunningProcess {
  readonly pid: number
  readonly parent: number
  readonly line: string
}

function descendants(): readonly RunningProcess[] {
  const all = execFileSync('ps', ['-eo', 'pid=,ppid=,stat=,etimes=,wchan:24=,args=', '-ww'], {
    encoding: 'utf8',
  })
    .split('\n')
    .map((line): RunningProcess => {
      const [pid, parent] = line.trim().split(/\s+/)
      return { pid: Number(pid), parent: Number(parent), line }
    })
  const found = new Set([process.pid])
  for (let size = 0; size !== found.size;) {
    size = found.size
    for (const { pid, parent } of all) if (found.has(parent)) found.add(pid)
  }
  found.delete(process.pid)
  return all.filter(({ pid }) => found.has(pid))
}

/** One that has ended by itself meanwhile is no failure. */
function tryToKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    console.error(`${pid}: ${String(error)}`)
  }
}

function tryToRun(program: string, args: readonly string[]): void {
  try {
    execFileSync(program, args, { timeout: 20_000 })
  } catch (error) {
    console.error(`${program} ${args.join(' ')}: ${String(error)}`)
  }
}
