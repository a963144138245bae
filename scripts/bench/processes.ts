import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Mount } from './subject.ts'

const COMMAND_LIMIT_MS = 120_000
const START_LIMIT_MS = 30_000
const END_LIMIT_MS = 30_000

/** A server or mount that runs until it is stopped. */
export interface Running {
  readonly pid: number
  /** What it has written so far, to both streams. */
  output(): string
  readonly child: ChildProcess
}

/** Every process and mount of a run, so that none outlives it. */
export class Processes {
  readonly #running = new Set<Running>()
  readonly #mountpoints = new Set<string>()

  start(command: string, args: readonly string[]): Running {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    if (child.pid === undefined) throw new Error(`${command} cannot be started.`)
    const said: string[] = []
    child.stdout.on('data', (chunk: Buffer) => said.push(chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => said.push(chunk.toString()))
    const running = { pid: child.pid, child, output: () => said.join('') }
    this.#running.add(running)
    return running
  }

  /** Starts a mount on a directory that was made for it and goes with it; resolves as soon as the kernel has it. */
  async mount(command: string, args: readonly string[], path: string): Promise<Mount> {
    this.#mountpoints.add(path)
    const running = this.start(command, args)
    await until(() => isMounted(path), running, 2)
    const leave = async (): Promise<void> => {
      await this.#unmount(running, path)
      if (readdirSync(path).length === 0) rmSync(path, { recursive: true })
    }
    return { path, pid: running.pid, leave }
  }

  async stop(running: Running): Promise<void> {
    if (!hasEnded(running)) {
      running.child.kill('SIGTERM')
      await ended(running, END_LIMIT_MS)
    }
    this.#running.delete(running)
  }

  async #unmount(running: Running, mountpoint: string): Promise<void> {
    await this.stop(running)
    if (isMounted(mountpoint)) detach(mountpoint)
    this.#mountpoints.delete(mountpoint)
  }

  /** Takes away whatever is left, by force; mounts first, so that no program waits in them. */
  async close(): Promise<void> {
    for (const mountpoint of this.#mountpoints) if (isMounted(mountpoint)) detach(mountpoint)
    for (const running of this.#running) {
      if (hasEnded(running)) continue
      running.child.kill('SIGKILL')
      await ended(running, END_LIMIT_MS)
    }
  }
}

/** Waits until `ready`; rejects with what the process said when it ends or takes too long. */
export async function until(ready: () => boolean, running: Running, pollMs: number): Promise<void> {
  const deadline = Date.now() + START_LIMIT_MS
  while (!ready()) {
    if (hasEnded(running) || Date.now() > deadline) {
      throw new Error(
        `This did not start: ${running.child.spawnargs.join(' ')}\n${running.output()}`,
      )
    }
    await sleep(pollMs)
  }
}

/** What became of a command. */
interface Ran {
  /** Wall time. */
  readonly ms: number
  readonly stdout: string
}

/** Runs a command to its end; rejects when it fails. Resolves with its output and wall time. */
export function run(command: string, args: readonly string[]): Promise<Ran> {
  return runIn('.', command, args)
}

/** As `run`, in this directory. */
export async function runIn(
  directory: string,
  command: string,
  args: readonly string[],
): Promise<Ran> {
  const startedMs = performance.now()
  const child = spawn(command, args, {
    cwd: directory,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: COMMAND_LIMIT_MS,
    killSignal: 'SIGKILL',
  })
  const stdout: Buffer[] = []
  const stderr: Buffer[] = []
  child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
  let endedMs = startedMs
  child.on('exit', () => {
    endedMs = performance.now()
  })
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  if (code !== 0) {
    const words = Buffer.concat(stderr).toString().slice(0, 2_000)
    throw new Error(`${command} ${args.slice(0, 4).join(' ')}: ${String(code ?? signal)}: ${words}`)
  }
  return { ms: endedMs - startedMs, stdout: Buffer.concat(stdout).toString() }
}

/** Whether a program of this name can be found. */
export function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
}

function isMounted(mountpoint: string): boolean {
  return readFileSync('/proc/self/mounts', 'utf8').includes(` ${mountpoint} `)
}

function detach(mountpoint: string): void {
  spawnSync('fusermount', ['-uz', mountpoint], { timeout: 5_000 })
}

function hasEnded({ child }: Running): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

async function ended(running: Running, limitMs: number): Promise<void> {
  if (hasEnded(running)) return
  await once(running.child, 'exit', { signal: AbortSignal.timeout(limitMs) })
}
