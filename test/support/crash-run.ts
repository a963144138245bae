import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { execa } from 'execa'
import { expect } from 'vitest'
import { parseStates } from '../../src/outbox/intent-file.ts'
import { isToSend } from '../../src/intents/rules.ts'
import { silentLogger } from '../../src/domain/logger.ts'
import { TrashFiles } from '../../src/trash/trash-files.ts'
import type { SeenRequest } from './fault-proxy.ts'
import { DriveInProcess } from './drive-in-process.ts'
import { HANGING_MS, MountedDrive, TestService } from './mounted-drive.ts'
import { PROGRAM } from './service-process.ts'

export type Contents = Readonly<Record<string, string>>

/** Commands in a drive, one after the other, and what the account holds before and after each. They tell when close failed, as a shell's own printf does not. */
export interface Operation {
  readonly title: string
  readonly commands: readonly string[]
  /** One more than commands. */
  readonly states: readonly Contents[]
  /** Content comes back, so that bag ids do: one name is uploaded several times, and in mode back not always as often. */
  readonly isToggled?: true
}

const LISTING_LAG_MS = 2_000
const SETTINGS = [
  ...['--listing-ttl', '60s', '--listing-lag', `${LISTING_LAG_MS}ms`],
  ...['--folder-settle', '300ms'],
]
const SAVED = '.goutputstream-AB12CD'
/** Knows the drive that it is run in. */
const BAGFS = `XDG_RUNTIME_DIR="$(dirname "$PWD")" XDG_STATE_HOME="$(dirname "$PWD")" ${process.execPath} ${resolve(PROGRAM)}`

export const OPERATIONS: readonly Operation[] = [
  {
    title: 'put',
    commands: ['/usr/bin/printf new > doc'],
    states: [{ other: 'other' }, { other: 'other', doc: 'new' }],
  },
  {
    title: 'overwrite',
    commands: ['/usr/bin/printf new > doc'],
    states: [{ doc: 'old' }, { doc: 'new' }],
  },
  {
    title: 'rename',
    commands: ['mv doc moved'],
    states: [{ doc: 'old' }, { moved: 'old' }],
  },
  {
    title: 'rename over',
    commands: ['mv doc taken'],
    states: [{ doc: 'old', taken: 'first' }, { taken: 'old' }],
  },
  {
    title: 'delete',
    commands: ['rm doc'],
    states: [{ doc: 'old', other: 'other' }, { other: 'other' }],
  },
  {
    title: 'save by temp file',
    commands: [`/usr/bin/printf new > ${SAVED}`, `mv ${SAVED} doc`],
    states: [{ doc: 'old' }, { doc: 'old', [SAVED]: 'new' }, { doc: 'new' }],
  },
  {
    title: 'restore',
    commands: ['rm doc', `${BAGFS} sync "$PWD"; ${BAGFS} trash restore doc --mountpoint "$PWD"`],
    states: [{ doc: 'old', other: 'other' }, { other: 'other' }, { doc: 'old', other: 'other' }],
    isToggled: true,
  },
  {
    title: 'delete of an open file',
    commands: ['exec 3< doc; rm doc; cat <&3'],
    states: [{ doc: 'old', other: 'other' }, { other: 'other' }],
  },
  {
    title: 'delete of a file that is written',
    commands: ['exec 3>> doc; printf more >&3; rm doc; printf more >&3'],
    states: [{ doc: 'old', other: 'other' }, { other: 'other' }],
  },
  {
    title: 'rename over an open file',
    commands: ['exec 3< taken; mv doc taken; cat <&3'],
    states: [{ doc: 'old', taken: 'first' }, { taken: 'old' }],
  },
]

export const TOGGLE: Operation = {
  title: 'toggle',
  commands: ['off', 'on', 'off'].map((content) => `/usr/bin/printf ${content} > doc`),
  states: ['on', 'off', 'on', 'off'].map((doc) => ({ doc })),
  isToggled: true,
}

export const MODES = ['through', 'back'] as const
export type Mode = (typeof MODES)[number]

export function otherMode(mode: Mode): Mode {
  return mode === 'back' ? 'through' : 'back'
}

/** An account, a mountpoint and a state directory for the mounts of one run, all gone when it ends. */
export class CrashRun {
  readonly dir: string
  readonly service: TestService
  readonly #drives: MountedDrive[] = []

  private constructor(dir: string, service: TestService) {
    this.dir = dir
    this.service = service
  }

  /** `startService` gets a directory for its data that is not there yet. */
  static async start(
    given: Contents,
    startService: (dir: string) => Promise<TestService> = (dir) => TestService.start(dir),
  ): Promise<CrashRun> {
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-crash-'))
    const service = await startService(join(dir, 'service'))
    for (const [name, content] of Object.entries(given)) await service.upload(name, content)
    return new CrashRun(dir, service)
  }

  async mount(mode: Mode, crashAt?: string, ...args: readonly string[]): Promise<MountedDrive> {
    const { service, dir } = this
    const drive = await MountedDrive.mount(
      { url: service.proxy.url, token: service.token },
      { mountpoint: join(dir, 'drive'), stateDir: join(dir, 'state') },
      // No listing comes by chance, so that every run passes the same steps.
      [...SETTINGS, ...(mode === 'back' ? ['--write-back'] : []), ...args],
      crashAt === undefined ? {} : { BAGFS_CRASH_AT: crashAt },
    )
    this.#drives.push(drive)
    return drive
  }

  /** Shows and sends what a mount left that is over, as the next mount does, in this process; answers what it showed. */
  async finishHere(mode: Mode): Promise<Contents> {
    const { service, dir } = this
    const [outbox] = readdirSync(join(dir, 'state'), { withFileTypes: true, recursive: true })
      .filter((entry) => entry.isDirectory() && entry.name === 'outbox')
      .map(({ parentPath }) => parentPath)
    if (outbox === undefined) throw new Error('The mount left no state.')
    const drive = await DriveInProcess.open({
      ...{ url: service.proxy.url, token: service.token, dir: outbox },
      ...{ writeBack: mode === 'back', settings: { listingLagMs: LISTING_LAG_MS } },
    })
    try {
      const shown: Record<string, string> = {}
      for (const [path, content] of Object.entries(await drive.tree())) shown[path] = content ?? ''
      await drive.drain()
      return shown
    } finally {
      await drive.drop()
    }
  }

  /** Uploads whose whole body reached the service, whether or not a drive heard the answer. */
  get wholeUploads(): number {
    return this.#whole().length
  }

  /** Those of them whose client was killed before it had the answer: they may be stored or not. */
  get cutUploads(): number {
    return this.#whole().filter(({ isCut }) => isCut).length
  }

  #whole(): readonly SeenRequest[] {
    return this.service.proxy.requests.filter(
      ({ method, path, headers, bodyBytes }) =>
        method === 'POST' &&
        path.endsWith('/upload') &&
        bodyBytes === Number(headers['content-length']),
    )
  }

  /** The files of the intents in the state directory, oldest first; for a drive that is not running. */
  intentFiles(): readonly string[] {
    const files = readdirSync(join(this.dir, 'state'), { recursive: true, encoding: 'utf8' })
    return files
      .filter((path) => path.endsWith('/intent.json'))
      .map((path) => join(this.dir, 'state', path))
      .sort()
  }

  /** What the trash has; for a drive that is not running. */
  async trashed(): Promise<readonly string[]> {
    const state = join(this.dir, 'state')
    const all = readdirSync(state, { recursive: true, encoding: 'utf8' })
    const dir = all.find((path) => /\/trash$/.test(path) && !path.includes('cache'))
    if (dir === undefined) return []
    const { files, items } = await TrashFiles.open(join(state, dir), silentLogger)
    return items.map(({ bagId }) => readFileSync(files.contentPath(bagId), 'utf8'))
  }

  /** Names of the intents in the state directory that are not carried out. */
  unfinished(): readonly string[] {
    return this.intentFiles()
      .map((path) => parseStates(readFileSync(path, 'utf8')).intent)
      .filter((intent) => intent.phase === 'held' || isToSend(intent))
      .map(({ name }) => name)
  }

  async end(): Promise<void> {
    for (const drive of this.#drives) await drive.kill()
    await this.service.close()
    rmSync(this.dir, { recursive: true, force: true })
  }
}

/** Runs the commands until one fails; answers how many were acknowledged. */
export async function runCommands(drive: MountedDrive, { commands }: Operation): Promise<number> {
  for (const [acknowledged, command] of commands.entries()) {
    try {
      await drive.sh(command)
    } catch {
      return acknowledged
    }
  }
  return commands.length
}

/** Asks the drive to leave, unless it is dead already, and waits for its end. */
export async function end(drive: MountedDrive): Promise<void> {
  drive.signal('SIGTERM')
  await drive.ended()
}

export async function filesOf(path: string): Promise<Contents> {
  const files: Record<string, string> = {}
  for (const name of await readdir(path)) files[name] = await readFile(join(path, name), 'utf8')
  return files
}

/** Runs tasks, `width` at a time; answers what failed. */
export async function runAll(
  tasks: readonly { readonly title: string; readonly task: () => Promise<void> }[],
  width: number,
): Promise<readonly string[]> {
  const failures: string[] = []
  const queue = [...tasks]
  const worker = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      try {
        await next.task()
      } catch (error) {
        failures.push(`${next.title}: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
  }
  await Promise.all(Array.from({ length: width }, worker))
  return failures
}

const LARGE = Buffer.alloc(300_000, 'large ')
/** Writes until the drive is dead: tells what it tries and what was acknowledged. A stat the kernel may answer by itself. */
const LOAD = `
i=0
while ls > /dev/null; do
  i=$((i + 1))
  echo "try file $i"; /usr/bin/printf 'content %d' "$i" > "file $i" && echo "done file $i"
  echo "try log $i"; /usr/bin/printf 'round %d' "$i" > log && echo "done log $i"
  echo "try large $i"; cp "$LARGE" "large $i" && echo "done large $i"
done 2> /dev/null`

/** What a load printed to its end; fails when it did not end. */
type LoadEnd = () => Promise<string>

/** Starts a load in a drive; resolves when it has begun to write, however long the start of a shell takes. */
export async function startLoad({ dir }: CrashRun, drive: MountedDrive): Promise<LoadEnd> {
  writeFileSync(join(dir, 'large'), LARGE)
  const load = execa('bash', ['-c', LOAD], {
    cwd: drive.path,
    env: { LARGE: join(dir, 'large') },
    reject: false,
    timeout: HANGING_MS,
    killSignal: 'SIGKILL',
  })
  await once(load.stdout, 'data', { signal: AbortSignal.timeout(HANGING_MS) })
  return async () => {
    const { stdout, timedOut } = await load
    expect(timedOut).toBe(false)
    return stdout
  }
}

export function checkLoad(contents: Contents, lines: readonly string[]): void {
  const last = lines.flatMap((line) => /^done log (\d+)$/.exec(line)?.[1] ?? []).at(-1)
  for (const line of lines) {
    const name = /^done (file \d+|large \d+)/.exec(line)?.[1]
    if (name !== undefined) expect(contents).toHaveProperty([name])
  }
  for (const [name, content] of Object.entries(contents)) {
    const number = /\d+$/.exec(name)?.[0] ?? ''
    if (name === 'log') expect(Number(content.slice(6))).toBeGreaterThanOrEqual(Number(last ?? 0))
    else if (name.startsWith('file ')) expect(content).toBe(`content ${number}`)
    else expect(content === LARGE.toString()).toBe(true)
  }
  if (last !== undefined) expect(contents).toHaveProperty(['log'])
}
