import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Writable } from 'node:stream'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { PROGRAM } from '../support/service-process.ts'

const PAGE = 'docs/tour.md'
/** Of the service on the page: on the machine of a test it may be taken. */
const PORT_OF_PAGE = '7790'
const HOME_OF_PAGE = '/home/you'
/** Where the shell is given the commands: the programs that it starts have no terminal. */
const TYPED_FD = 3
/** Runs what is typed, each after a NUL, until there is no more. */
const SHELL = `exec 2>&1; while IFS= read -r -d '' -u ${TYPED_FD} step; do eval "$step"; done; kill $(jobs -p)`

/** What is to be typed, and what is seen then. */
interface Step {
  readonly commands: string
  /** With `…` for what differs each time. */
  readonly seen: string
}

function stepsOf(page: string): readonly Step[] {
  const blocks = /^```sh\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?/gms
  return Array.from(page.matchAll(blocks), ([, commands = '', seen = '']) => ({ commands, seen }))
}

/** A shell in which a reader types, with a home of its own. */
class Reader {
  readonly #shell: ChildProcess
  #shown = ''
  #steps = 0

  constructor(home: string) {
    const bin = join(home, '.bin')
    this.#shell = spawn('bash', ['-c', SHELL], {
      cwd: home,
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      env: {
        HOME: home,
        XDG_RUNTIME_DIR: join(home, '.run'),
        PATH: `${bin}:${process.env['PATH'] ?? ''}`,
        LC_ALL: 'C.UTF-8',
      },
    })
    this.#shell.stdout?.on('data', (chunk: Buffer) => (this.#shown += chunk.toString()))
  }

  get #typed(): Writable {
    return this.#shell.stdio[TYPED_FD] as Writable
  }

  /** Resolves when the commands have ended and what they say is what the page says. */
  async follow({ commands, seen }: Step): Promise<void> {
    this.#shown = ''
    const end = `step ${(this.#steps += 1)} ended`
    this.#typed.write(`${commands}echo '${end}'\0`)
    await expect.poll(() => this.#shown).toContain(end)
    // What runs on in the background may speak a moment later.
    await expect.poll(() => this.#shown.replace(`${end}\n`, '')).toMatch(asPattern(seen))
  }

  async close(): Promise<void> {
    this.#typed.end()
    if (this.#shell.exitCode === null) await once(this.#shell, 'exit')
  }
}

function asPattern(seen: string): RegExp {
  const literal = seen.replace(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`)
  const lines = literal.replaceAll(/^…\n/gm, String.raw`(?:.*\n)*`)
  return new RegExp(`^${lines.replaceAll('…', '.*')}$`)
}

async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return String(port)
}

let home: string

beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'bagfs-tour-')))
  for (const name of ['.bin', '.run']) mkdirSync(join(home, name), { mode: 0o700 })
  // As npm link does it.
  symlinkSync(resolve(PROGRAM), join(home, '.bin/bagfs'))
  chmodSync(PROGRAM, 0o755)
  // The machine of a test has no systemd that would listen.
  writeFileSync(join(home, '.bin/systemctl'), '#!/bin/sh\n', { mode: 0o755 })
})

afterEach(() => {
  spawnSync('fusermount', ['-uzq', join(home, 'drive')])
  rmSync(home, { recursive: true, force: true })
})

describe.runIf(canMount())('the tour', () => {
  it('can be followed word by word', async () => {
    const port = await freePort()
    const page = readFileSync(PAGE, 'utf8')
    const here = page
      .replaceAll(HOME_OF_PAGE, home)
      .replaceAll(PORT_OF_PAGE, port)
      .replaceAll('bagfs serve', `bagfs serve --port ${port}`)
    const steps = stepsOf(here)
    expect(steps.length).toBe(page.match(/^```sh$/gm)?.length)
    expect(steps.length).toBeGreaterThan(10)
    const reader = new Reader(home)
    try {
      for (const step of steps) await reader.follow(step)
    } finally {
      await reader.close()
    }
  })
})
