import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** The built program; BAGFS_DIST names a build other than `dist`. */
export const PROGRAM = join(process.env['BAGFS_DIST'] ?? 'dist', 'main.js')
export const TOKEN = 'test-token-0123456789'
const LIMIT_MS = 120_000

/** The embedded service as `bagfs serve`, which can be killed and started again on its data. */
export class ServiceProcess {
  readonly url: string
  readonly #dir: string
  #process: ChildProcess

  private constructor(dir: string, started: { process: ChildProcess; url: string }) {
    this.#dir = dir
    this.#process = started.process
    this.url = started.url
  }

  /** With its data in `dir`, which is made. */
  static async start(dir: string): Promise<ServiceProcess> {
    mkdirSync(dir)
    writeFileSync(join(dir, 'token-file'), TOKEN, { mode: 0o600 })
    return new ServiceProcess(dir, await serve(dir, '0'))
  }

  /** kill -9. Answers whether it was alive until then. */
  kill(): boolean {
    return this.#process.exitCode === null && this.#process.kill('SIGKILL')
  }

  get wasKilled(): boolean {
    return this.#process.signalCode === 'SIGKILL'
  }

  /** Starts it again once it is dead: same data, same port. */
  async restart(): Promise<void> {
    await this.#ended()
    const { process } = await serve(this.#dir, new URL(this.url).port)
    this.#process = process
  }

  async close(): Promise<void> {
    this.#process.kill('SIGTERM')
    await this.#ended()
  }

  async #ended(): Promise<void> {
    const { exitCode, signalCode } = this.#process
    if (exitCode !== null || signalCode !== null) return
    await once(this.#process, 'exit', { signal: AbortSignal.timeout(LIMIT_MS) })
  }
}

/** Resolves when the service listens. */
async function serve(dir: string, port: string): Promise<{ process: ChildProcess; url: string }> {
  const child = spawn(
    process.execPath,
    [
      ...[PROGRAM, 'serve', '--data', join(dir, 'data'), '--port', port],
      ...['--token-file', join(dir, 'token-file')],
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const said: string[] = []
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk.toString()))
  const signal = AbortSignal.timeout(LIMIT_MS)
  try {
    const [url] = (await once(createInterface(child.stdout), 'line', { signal })) as [string]
    return { process: child, url }
  } catch (cause) {
    child.kill('SIGKILL')
    throw new Error(`The service did not start: ${said.join('')}`, { cause })
  }
}
