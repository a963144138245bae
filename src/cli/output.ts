import { once } from 'node:events'
import type { Writable } from 'node:stream'
import type { LogLevel } from '../config/options.ts'
import { fromFileSystem, systemErrorCode } from '../domain/errors.ts'
import { toPrintable, toPrintableJson } from '../domain/printable.ts'
import type { ScreenSize } from './fit-screen.ts'

export interface OutputStreams {
  readonly stdout: Writable & {
    readonly isTTY?: boolean
    readonly columns?: number
    readonly rows?: number
  }
  readonly stderr: Writable & { readonly isTTY?: boolean }
}

const PRIORITIES: Readonly<Record<LogLevel, number>> = { debug: 7, info: 6, warn: 4, error: 3 }

/** The only writer of stdout and stderr. Results go to stdout, everything said about them to stderr. */
export class Output {
  readonly #streams: OutputStreams
  #stdoutError: Error | undefined
  /** The caller is told of an error, and tells the person. */
  #isPiping = false
  /** Each line on stderr begins with its priority, as the journal of systemd reads it (sd-daemon(3)). */
  readonly #isInJournal: boolean

  constructor(streams: OutputStreams, { isInJournal }: { readonly isInJournal: boolean }) {
    this.#streams = streams
    this.#isInJournal = isInJournal
    streams.stdout.on('error', (error) => {
      this.#onStdoutError(error)
    })
    // Its reader has gone (`2>&1 | head`, a closed terminal), or the disk of the log is full. A
    // drive must not die of that. The lost words stay lost, and the next ones are tried again.
    streams.stderr.on('error', () => undefined)
  }

  /** A line of the result. */
  line(text: string): void {
    if (!this.#stdoutIsGone) this.#streams.stdout.write(`${toPrintable(text)}\n`)
  }

  /** The result as JSON. */
  json(value: unknown): void {
    if (!this.#stdoutIsGone) this.#streams.stdout.write(`${toPrintableJson(value)}\n`)
  }

  /** Something to tell the person; may have several lines. */
  note(text: string, level: LogLevel = 'info'): void {
    const lines = text
      .split('\n')
      .map((line) => `${toPrintable(line)}\n`)
      .join('')
    this.log(lines, level)
  }

  /** Whole lines of the log, safe already. */
  log(lines: string, level: LogLevel): void {
    this.#streams.stderr.write(this.#isInJournal ? withPriority(lines, level) : lines)
  }

  /** A sentence that warns; may be passed on by itself. */
  readonly warn = (sentence: string): void => {
    this.note(`bagfs: warning: ${sentence}`, 'warn')
  }

  /** Text made by commander, which is safe already. */
  raw(to: 'stdout' | 'stderr', text: string): void {
    if (to === 'stderr' || !this.#stdoutIsGone) this.#streams[to].write(text)
  }

  /**
   * Passes bytes on to stdout as they are; resolves with their number, or undefined when the reader has left (`| head`).
   * Rejects as the local file system does (`local-disk-full`).
   */
  async pipe(source: AsyncIterable<Buffer>): Promise<number | undefined> {
    const { stdout } = this.#streams
    let length = 0
    this.#isPiping = true
    try {
      for await (const chunk of source) {
        if (this.#stdoutIsGone) break
        length += chunk.length
        if (!stdout.write(chunk)) await drained(stdout)
      }
      await this.flush()
    } finally {
      this.#isPiping = false
    }
    if (this.#stdoutError === undefined) return length
    if (hasLeft(this.#stdoutError)) return undefined
    throw fromFileSystem(this.#stdoutError, 'Writing the result')
  }

  /** Resolves when everything is written, or its reader has gone. */
  async flush(): Promise<void> {
    const { stdout, stderr } = this.#streams
    await Promise.all([written(stdout), written(stderr)])
    // What went wrong with the last words is heard after them.
    await new Promise((resolve) => setImmediate(resolve))
  }

  /** The terminal that progress may be drawn on, if there is one. */
  get terminal(): Writable | undefined {
    return this.#streams.stderr.isTTY === true ? this.#streams.stderr : undefined
  }

  /** True when the result goes to a terminal, where it can be drawn anew. */
  get isOnTerminal(): boolean {
    return this.#streams.stdout.isTTY === true
  }

  /** Of the terminal that the result goes to, where it tells. It may change. */
  get screenSize(): ScreenSize | undefined {
    const { columns = 0, rows = 0 } = this.#streams.stdout
    return this.isOnTerminal && columns > 0 && rows > 0 ? { columns, rows } : undefined
  }

  get #stdoutIsGone(): boolean {
    return this.#stdoutError !== undefined
  }

  #onStdoutError(error: Error): void {
    this.#stdoutError ??= error
    if (!hasLeft(error) && !this.#isPiping) {
      this.note(`bagfs: writing the result failed: ${error.message}`, 'error')
      process.exitCode = 1
    }
  }
}

function withPriority(lines: string, level: LogLevel): string {
  const all = lines.trimEnd().split('\n')
  return all.map((line) => `<${PRIORITIES[level]}>${line}\n`).join('')
}

function written(stream: Writable): Promise<void> {
  return new Promise((resolve) => {
    if (stream.writableLength === 0 || stream.destroyed) resolve()
    else
      stream.write('', () => {
        resolve()
      })
  })
}

/** Waits until a stream takes more, or takes nothing any more. */
async function drained(stream: Writable): Promise<void> {
  // Its error is heard by the one listener of all its errors.
  await once(stream, 'drain').catch(() => undefined)
}

/** The reader of the result is gone. */
function hasLeft(error: Error): boolean {
  return systemErrorCode(error) === 'EPIPE'
}
