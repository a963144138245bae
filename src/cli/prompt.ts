import { createInterface, type Interface } from 'node:readline'
import { Writable } from 'node:stream'
import { DriveError } from '../domain/errors.ts'
import type { Output } from './output.ts'

/** Asks the person at the terminal. Ctrl-C and Ctrl-D reject `interrupted`. */
export class Prompt {
  readonly #reader: Interface
  readonly #output: Output
  /** What is typed shows only while a question is open whose answer may show. */
  #isHidden = true
  /** Typed ahead of the next question. */
  readonly #lines: string[] = []
  #waiting: { take: (line: string) => void; fail: (error: Error) => void } | undefined
  #isClosed = false

  private constructor(output: Output) {
    this.#output = output
    this.#reader = createInterface({
      input: process.stdin,
      output: this.#echo(),
      terminal: true,
      historySize: 0,
    })
    this.#reader.setPrompt('')
    this.#reader.on('line', (line) => {
      this.#onLine(line)
    })
    this.#reader.on('SIGINT', () => {
      this.#reader.close()
    })
    this.#reader.on('close', () => {
      this.#isClosed = true
      if (this.#waiting !== undefined) output.note('')
      this.#waiting?.fail(interrupted())
    })
  }

  /** Undefined where no person can be asked. */
  static open(output: Output): Prompt | undefined {
    const isTerminal = process.stdin.isTTY && output.terminal !== undefined
    return isTerminal ? new Prompt(output) : undefined
  }

  /** The answer, or `usual` for an empty one. */
  async ask(question: string, usual?: string): Promise<string> {
    const shown = usual === undefined ? `${question}: ` : `${question} [${usual}]: `
    const answer = (await this.#question(shown, { isHidden: false })).trim()
    return answer === '' && usual !== undefined ? usual : answer
  }

  /** The answer does not show while it is typed. */
  async askHidden(question: string): Promise<string> {
    const answer = await this.#question(`${question} (it does not show): `, { isHidden: true })
    this.#output.note('')
    return answer.trim()
  }

  /** True for yes; `usual` is what an empty answer means. */
  async confirm(question: string, { usual }: { readonly usual: boolean }): Promise<boolean> {
    const choice = usual ? '[Y/n]' : '[y/N]'
    const given = await this.#question(`${question} ${choice} `, { isHidden: false })
    const answer = given.trim().toLowerCase()
    return answer === '' ? usual : ['y', 'yes'].includes(answer)
  }

  close(): void {
    this.#reader.close()
  }

  #question(text: string, { isHidden }: { readonly isHidden: boolean }): Promise<string> {
    const ahead = this.#lines.shift()
    if (ahead !== undefined) {
      this.#output.raw('stderr', text)
      if (!isHidden) this.#output.note('')
      return Promise.resolve(ahead)
    }
    return new Promise((resolve, reject) => {
      if (this.#isClosed) {
        reject(interrupted())
        return
      }
      this.#waiting = { take: resolve, fail: reject }
      this.#isHidden = isHidden
      if (isHidden) {
        this.#output.raw('stderr', text)
        return
      }
      this.#reader.setPrompt(text)
      this.#reader.prompt()
    })
  }

  #onLine(line: string): void {
    const waiting = this.#waiting
    this.#waiting = undefined
    // Before the next character of the same piece of input is echoed.
    this.#isHidden = true
    this.#reader.setPrompt('')
    if (waiting === undefined) this.#lines.push(line)
    else waiting.take(line)
  }

  #echo(): Writable {
    const echo = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        if (!this.#isHidden) this.#output.raw('stderr', chunk.toString('utf8'))
        done()
      },
    })
    // For the place of the cursor in long lines.
    return Object.assign(echo, { columns: process.stderr.columns })
  }
}

function interrupted(): DriveError {
  return new DriveError('interrupted', 'Interrupted: nothing was changed.')
}
