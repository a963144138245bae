import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { expect } from 'vitest'

/** A program at a terminal of its own (script(1)): what it shows, and what a person types. */
export class Terminal {
  readonly #process: ChildProcess
  #shown = ''
  readonly #ended: Promise<number | null>

  private constructor(process: ChildProcess) {
    this.#process = process
    process.stdout?.on('data', (chunk: Buffer) => (this.#shown += chunk.toString()))
    this.#ended = once(process, 'close').then(([code]) => code as number | null)
  }

  static start(
    command: readonly string[],
    options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
  ): Terminal {
    // `exec`: the shell that script(1) starts must not hear the keys as well; dash then ends by SIGINT.
    const quoted = command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')
    return new Terminal(
      spawn('script', ['--quiet', '--return', '--command', `exec ${quoted}`, '/dev/null'], {
        ...options,
        stdio: ['pipe', 'pipe', 'inherit'],
      }),
    )
  }

  /** All that was on the screen so far. */
  get shown(): string {
    return this.#shown
  }

  async sees(words: string): Promise<void> {
    await expect.poll(() => this.#shown).toContain(words)
  }

  /** Waits for a question, and types; `\r` is the Enter key, `\x03` is Ctrl-C. */
  async answer(question: string, typed: string): Promise<void> {
    await this.sees(question)
    this.#shown += '|'
    this.#process.stdin?.write(typed)
  }

  async end(): Promise<{ readonly exitCode: number | null; readonly shown: string }> {
    const exitCode = await this.#ended
    return { exitCode, shown: this.#shown }
  }
}
