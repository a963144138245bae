import { execFile, spawn } from 'node:child_process'
import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'

export interface Outcome {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface RunOptions {
  readonly cwd?: string
  readonly variables?: Readonly<Record<string, string>>
}

/** bagfs as `npm run build` makes it, in a directory of its own. */
export class BuiltProgram {
  readonly directory: string

  private constructor(directory: string) {
    this.directory = directory
  }

  static async build(): Promise<BuiltProgram> {
    const directory = await mkdtemp(join(tmpdir(), 'bagfs-built-'))
    const args = ['scripts/build.js', join(directory, 'dist')]
    await promisify(execFile)(process.execPath, args)
    await copyFile('package.json', join(directory, 'package.json'))
    await symlink(resolve('node_modules'), join(directory, 'node_modules'))
    return new BuiltProgram(directory)
  }

  /** Starts the program with nothing of our environment that bagfs reads. */
  start(args: readonly string[], options: RunOptions = {}): ChildProcessWithoutNullStreams {
    const main = join(this.directory, 'dist/main.js')
    return spawn(process.execPath, [main, ...args], {
      cwd: options.cwd ?? this.directory,
      env: { PATH: process.env['PATH'], HOME: this.directory, TZ: 'UTC', ...options.variables },
    })
  }

  async run(args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    const child = this.start(args, options)
    const stdout: Buffer[] = []
    const stderr: Buffer[] = []
    child.stdout.on('data', (chunk: Buffer) => stdout.push(chunk))
    child.stderr.on('data', (chunk: Buffer) => stderr.push(chunk))
    child.stdin.end()
    const [exitCode] = (await once(child, 'close')) as [number | null]
    const text = (chunks: Buffer[]): string => Buffer.concat(chunks).toString('utf8')
    return { exitCode, stdout: text(stdout), stderr: text(stderr) }
  }

  remove(): Promise<void> {
    return rm(this.directory, { recursive: true })
  }
}

/** The first line of a program's stdout; rejects when it ends without one. */
export async function firstLine(child: ChildProcessWithoutNullStreams): Promise<string> {
  for await (const line of createInterface({ input: child.stdout })) return line
  throw new Error('The program ended without a line of output.')
}
