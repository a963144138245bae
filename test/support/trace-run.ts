import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { openSync, closeSync } from 'node:fs'
import { expect } from 'vitest'
import { eventually } from './eventually.ts'
import { PROGRAM } from './service-process.ts'
import { placesIn } from './places.ts'

/** An operation as `bagfs trace --json` prints it, or how many are not shown. */
export interface TraceLine {
  readonly operation?: string
  readonly path?: string
  readonly to?: string
  readonly result?: string
  readonly bytes?: number
  readonly pid?: number
  readonly program?: string
  readonly lost?: number
}

/** `bagfs trace` in a process of its own, from the moment on that it sees what happens. */
export class TraceRun {
  readonly process: ChildProcess
  #out = ''
  #said = ''

  private constructor(process: ChildProcess) {
    this.process = process
    process.stdout?.on('data', (chunk: Buffer) => (this.#out += chunk.toString()))
    process.stderr?.on('data', (chunk: Buffer) => (this.#said += chunk.toString()))
  }

  /** With `into`, its output goes to that file. */
  static async start(
    args: readonly string[],
    { runtimeDir, into }: { readonly runtimeDir: string; readonly into?: string },
  ): Promise<TraceRun> {
    const out = into === undefined ? 'pipe' : openSync(into, 'w')
    const child = spawn(process.execPath, [PROGRAM, 'trace', ...args], {
      stdio: ['ignore', out, 'pipe'],
      env: { ...process.env, ...placesIn(runtimeDir) },
    })
    if (typeof out === 'number') closeSync(out)
    const run = new TraceRun(child)
    await eventually(() => {
      expect(run.said).toContain('Tracing ')
    })
    return run
  }

  get said(): string {
    return this.#said
  }

  get out(): string {
    return this.#out
  }

  /** What `--json` printed, as far as it came in whole lines. */
  get lines(): readonly TraceLine[] {
    const whole = this.#out.slice(0, this.#out.lastIndexOf('\n') + 1).split('\n')
    return whole.filter((line) => line !== '').map((line) => JSON.parse(line) as TraceLine)
  }

  /** The first line that has all of this, once it is printed. */
  async sees(wanted: TraceLine): Promise<TraceLine> {
    return eventually(() => {
      expect(this.lines).toContainEqual(expect.objectContaining(wanted))
      return this.lines.find((line) =>
        Object.entries(wanted).every(([key, value]) => line[key as keyof TraceLine] === value),
      ) as TraceLine
    })
  }

  /** As Ctrl-C does; the exit code. */
  async interrupt(): Promise<number | null> {
    this.process.kill('SIGINT')
    return this.ended()
  }

  async ended(): Promise<number | null> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      await once(this.process, 'exit')
    }
    return this.process.exitCode
  }

  kill(): void {
    this.process.kill('SIGKILL')
  }
}
