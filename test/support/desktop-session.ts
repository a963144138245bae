import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { execa } from 'execa'
import { expect } from 'vitest'
import { HANGING_MS } from './mounted-drive.ts'

/** A window that is shown, as its program calls it. */
interface Window {
  readonly id: string
  readonly title: string
}

/** After so long a key that came before its window was ready is pressed again. */
const PRESS_AGAIN_MS = 5_000
const ANSWER_AGAIN_MS = 300
/** So long a program may take to end by itself. */
const END_MS = 5_000
/** A server that begins anew when its last program goes refuses the next one meanwhile. */
const LASTING = '-noreset'
/** Without a socket in /tmp, which it would leave there: programs find it by its abstract name. */
const NO_SOCKETS = ['-nolisten', 'tcp', '-nolisten', 'unix']
const X_OPTIONS = ['-displayfd', '3', '-screen', '0', '1000x640x24', LASTING, ...NO_SOCKETS]

/** A desktop without a screen; the keyboard is all that a test has. */
export class DesktopSession {
  readonly #env: Readonly<Record<string, string>>
  readonly #processes: ChildProcess[]

  private constructor(env: Readonly<Record<string, string>>, processes: ChildProcess[]) {
    this.#env = env
    this.#processes = processes
  }

  /** Without gvfs, which tests do not need: with it, dialogs differ. */
  static async start(home: string): Promise<DesktopSession> {
    const config = join(home, '.config')
    const runtime = join(home, '.run')
    for (const dir of [config, runtime]) mkdirSync(dir, { mode: 0o700 })
    const opener = '[Default Applications]\ntext/plain=l3afpad.desktop\n'
    writeFileSync(join(config, 'mimeapps.list'), opener)
    const env = {
      ...{ PATH: process.env['PATH'] ?? '', TMPDIR: home },
      ...{ HOME: home, XDG_CONFIG_HOME: config, XDG_RUNTIME_DIR: runtime, LC_ALL: 'C.UTF-8' },
      ...{ NO_AT_BRIDGE: '1', GIO_USE_VFS: 'local', GSETTINGS_BACKEND: 'memory' },
    }
    const screen = start(env, 'Xvfb', ...X_OPTIONS)
    const display = await firstLine(screen.stdio[3] as Readable)
    const withScreen = { ...env, DISPLAY: `:${display}` }
    const busOptions = [`--address=unix:path=${join(runtime, 'bus')}`, '--print-address=3']
    const bus = start(withScreen, 'dbus-daemon', '--session', '--nofork', ...busOptions)
    const address = await firstLine(bus.stdio[3] as Readable)
    const all = { ...withScreen, DBUS_SESSION_BUS_ADDRESS: address }
    return new DesktopSession(all, [screen, bus])
  }

  /** Starts a program, until it shows a window of this title. */
  async open(title: RegExp, program: string, ...args: readonly string[]): Promise<void> {
    this.#processes.push(start(this.#env, program, ...args))
    await this.until(
      () => this.shows(title),
      () => Promise.resolve(),
    )
  }

  /** The newest window of this title. */
  async #window(title: RegExp): Promise<Window | undefined> {
    return (await this.#windows()).findLast((window) => title.test(window.title))
  }

  async #windows(): Promise<readonly Window[]> {
    const ids = (await this.#run('xdotool', 'search', '--onlyvisible', '--name', '.')).split('\n')
    const titles = ids.map(async (id) => {
      return { id, title: await this.#run('xdotool', 'getwindowname', id) }
    })
    return (await Promise.all(titles)).filter(({ title }) => title !== '')
  }

  async shows(title: RegExp): Promise<boolean> {
    return (await this.#window(title)) !== undefined
  }

  /** URLs of the files that file managers are ready to paste. */
  async copied(): Promise<readonly string[]> {
    const type = 'x-special/gnome-copied-files'
    const text = await this.#run('xclip', '-out', '-selection', 'clipboard', '-target', type)
    const [step, ...urls] = text.replace(/\0$/, '').split('\n')
    return step === 'copy' ? urls : []
  }

  /** Presses keys in the window of this title. As for a person, they are lost when it has just gone. */
  async press(title: RegExp, ...keys: readonly string[]): Promise<void> {
    await this.#toWindow(title, 'key', '--clearmodifiers', ...keys)
  }

  /** Writes in the place of what is marked in the window of this title. */
  async write(title: RegExp, text: string): Promise<void> {
    await this.#toWindow(title, 'type', '--clearmodifiers', text)
  }

  /** Takes what each dialog of this title offers first, for as long as there are any. */
  async accept(title: RegExp, isDone: () => Promise<boolean>): Promise<void> {
    await this.until(isDone, () => this.press(title, 'Return'), ANSWER_AGAIN_MS)
  }

  /** Does what a person would, and again after a time in which nothing came of it. */
  async until(
    isDone: () => Promise<boolean>,
    act: () => Promise<void>,
    againMs = PRESS_AGAIN_MS,
  ): Promise<void> {
    const deadline = Date.now() + HANGING_MS
    while (!(await isDone())) {
      if (Date.now() >= deadline) throw new Error(`Nothing came of it. ${await this.#look()}`)
      await act()
      const again = Date.now() + againMs
      await expect.poll(async () => (await isDone()) || Date.now() >= again).toBe(true)
    }
  }

  async close(): Promise<void> {
    for (const child of this.#processes.toReversed()) await end(child)
  }

  async #look(): Promise<string> {
    const titles = (await this.#windows()).map(({ title }) => title)
    const ended = this.#processes.filter(hasEnded).map(({ spawnfile, signalCode, exitCode }) => {
      return `${spawnfile} (${String(signalCode ?? exitCode)})`
    })
    return `Windows: ${titles.join(', ')}. Ended: ${ended.join(', ')}.`
  }

  /** No window manager gives a window the keyboard. */
  async #toWindow(title: RegExp, ...args: readonly string[]): Promise<void> {
    const window = await this.#window(title)
    if (window === undefined) return
    await this.#run('xdotool', 'windowfocus', '--sync', window.id, ...args)
  }

  /** What it prints; nothing where a window has gone meanwhile, or there is none. */
  async #run(program: string, ...args: readonly string[]): Promise<string> {
    const options = { env: this.#env, extendEnv: false, reject: false, timeout: HANGING_MS }
    return (await execa(program, args, options)).stdout
  }
}

/** Its descriptor 3 is a pipe; what it starts is in its group. */
function start(
  env: Readonly<Record<string, string>>,
  program: string,
  ...args: readonly string[]
): ChildProcess {
  return spawn(program, args, {
    env,
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  })
}

async function firstLine(stream: Readable): Promise<string> {
  for await (const line of createInterface({ input: stream })) return line
  throw new Error('A program of the desktop ended before it was ready.')
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null
}

/** Asked first, so that it can remove what it made outside of its home. */
async function end(child: ChildProcess): Promise<void> {
  if (hasEnded(child) || child.pid === undefined) return
  const { pid } = child
  const ended = once(child, 'exit')
  process.kill(-pid, 'SIGTERM')
  const force = setTimeout(() => process.kill(-pid, 'SIGKILL'), END_MS)
  await ended
  clearTimeout(force)
}
