import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'

const PROGRAM = fileURLToPath(new URL('holder.py', import.meta.url))
/** A drive that leaves a program waiting for so long hangs. */
const LIMIT_MS = 120_000

/** A file that the holder has open. */
export type Descriptor = number & { readonly brand: 'descriptor' }

/** An operation that failed; `code` is the errno's name. */
export class FailedOperation extends Error {
  readonly code: string

  constructor(code: string, what: string) {
    super(`${what}: ${code}`)
    this.code = code
  }
}

/** An operation that was not answered in time. */
export class HungOperation extends Error {}

const answer = z.object({
  id: z.number(),
  value: z.unknown().optional(),
  error: z.exactOptional(z.string()),
})
type Answer = z.infer<typeof answer>

const tree = z.record(z.string(), z.string().nullable())

interface Asked {
  readonly what: string
  readonly settle: (answer: Answer) => void
}

/**
 * All that programs do on the mounts, in a process of its own: a drive that hangs holds up neither the test nor the
 * proxies in it. Rejects with `FailedOperation`, or `HungOperation` after a minute.
 */
export class Holder {
  readonly #process: ChildProcessWithoutNullStreams
  /** By id of the question; each goes with its answer. */
  readonly #asked = new Map<number, Asked>()
  #lastId = 0

  private constructor(process: ChildProcessWithoutNullStreams) {
    this.#process = process
    process.stderr.on('data', (chunk: Buffer) => {
      console.error(chunk.toString())
    })
    createInterface({ input: process.stdout }).on('line', (line) => {
      const told = answer.parse(JSON.parse(line))
      this.#asked.get(told.id)?.settle(told)
    })
  }

  static start(): Holder {
    return new Holder(spawn('python3', [PROGRAM]))
  }

  /** What was asked and is not answered. */
  waiting(): readonly string[] {
    return [...this.#asked.values()].map(({ what }) => what)
  }

  /** Opens the root of a drive that is mounted at `path`: operations name it by `root`. */
  async enter(root: string, path: string): Promise<void> {
    await this.#ask('enter', root, path)
  }

  /** To be called before the drive is unmounted. */
  async exit(root: string): Promise<void> {
    await this.#ask('exit', root)
  }

  async open(root: string, path: string, flags: 'r+' | 'w' | 'a'): Promise<Descriptor> {
    return (await this.#ask('open', root, path, flags)) as Descriptor
  }

  /** In bytes, as fstat tells it. */
  async size(file: Descriptor): Promise<number> {
    return z.number().parse(await this.#ask('size', file))
  }

  async write(file: Descriptor, text: string): Promise<void> {
    await this.#ask('write', file, text)
  }

  async writeAt(file: Descriptor, text: string, offset: number): Promise<void> {
    await this.#ask('writeAt', file, text, offset)
  }

  async truncate(file: Descriptor, length: number): Promise<void> {
    await this.#ask('truncate', file, length)
  }

  async readOpen(file: Descriptor): Promise<string> {
    return z.string().parse(await this.#ask('readOpen', file))
  }

  async sync(file: Descriptor): Promise<void> {
    await this.#ask('sync', file)
  }

  async close(file: Descriptor): Promise<void> {
    await this.#ask('close', file)
  }

  async read(root: string, path: string): Promise<string> {
    return z.string().parse(await this.#ask('read', root, path))
  }

  async stat(root: string, path: string): Promise<void> {
    await this.#ask('stat', root, path)
  }

  async names(root: string): Promise<readonly string[]> {
    return z.array(z.string()).parse(await this.#ask('names', root))
  }

  /** Content of all files whose path begins so; null for one that could not be read. */
  async tree(root: string, prefix: string): Promise<ReadonlyMap<string, string | null>> {
    return new Map(Object.entries(tree.parse(await this.#ask('tree', root, prefix))))
  }

  async makeDirectory(root: string, path: string): Promise<void> {
    await this.#ask('mkdir', root, path)
  }

  async remove(root: string, path: string): Promise<void> {
    await this.#ask('remove', root, path)
  }

  async rename(root: string, from: string, to: string): Promise<void> {
    await this.#ask('rename', root, from, to)
  }

  async end(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    this.#process.kill('SIGKILL')
    await once(this.#process, 'exit')
  }

  async #ask(op: string, ...args: readonly (string | number)[]): Promise<unknown> {
    this.#lastId += 1
    const id = this.#lastId
    const what = `${op} ${args.map((each) => String(each).slice(0, 40)).join(' ')}`
    try {
      const told = await new Promise<Answer>((resolve, reject) => {
        const timer = setTimeout(() => {
          reject(new HungOperation(`No answer within ${LIMIT_MS} ms: ${what}`))
        }, LIMIT_MS)
        const settle = (given: Answer): void => {
          clearTimeout(timer)
          resolve(given)
        }
        this.#asked.set(id, { what, settle })
        this.#process.stdin.write(`${JSON.stringify({ id, op, with: args })}\n`)
      })
      if (told.error !== undefined) throw new FailedOperation(told.error, what)
      return told.value
    } finally {
      this.#asked.delete(id)
    }
  }
}
