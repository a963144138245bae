import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { HANGING_MS, type Bench } from './mounted-drive.ts'

/** No window is opened by a test unless it says so. */
const NO_DISPLAY = { DISPLAY: '', WAYLAND_DISPLAY: '' }

/** `bagfs status --web` in a process of its own. */
export class StatusPage {
  /** With the token. */
  readonly link: string
  readonly #process: ChildProcess
  readonly #said: string[]

  private constructor(process: ChildProcess, link: string, said: string[]) {
    this.#process = process
    this.link = link
    this.#said = said
  }

  static async start(
    bench: Bench,
    args: readonly string[] = [],
    env: Readonly<Record<string, string>> = NO_DISPLAY,
  ): Promise<StatusPage> {
    const child = bench.start(['status', '--web', ...args], env)
    const said: string[] = []
    child.stderr?.on('data', (chunk: Buffer) => said.push(chunk.toString()))
    if (child.stdout === null) throw new Error('The page has no stdout.')
    const signal = AbortSignal.timeout(HANGING_MS)
    try {
      const [link] = (await once(createInterface(child.stdout), 'line', { signal })) as [string]
      return new StatusPage(child, link, said)
    } catch (cause) {
      child.kill('SIGKILL')
      throw new Error(`The page did not start: ${said.join('')}`, { cause })
    }
  }

  get origin(): string {
    return new URL(this.link).origin
  }

  get token(): string {
    return new URL(this.link).hash.slice(1)
  }

  get stderr(): string {
    return this.#said.join('')
  }

  /** As Ctrl-C does; resolves with the exit code. */
  async end(): Promise<number | null> {
    const { exitCode, signalCode } = this.#process
    if (exitCode !== null || signalCode !== null) return exitCode
    const ended = once(this.#process, 'exit', { signal: AbortSignal.timeout(HANGING_MS) })
    this.#process.kill('SIGINT')
    const [code] = (await ended) as [number | null]
    return code
  }
}
