import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { execa } from 'execa'
import { describe, expect, it } from 'vitest'
import { isToSend } from '../../src/outbox/schedule.ts'
import { parseIntent } from '../../src/outbox/intent-file.ts'
import { canMount } from '../support/fuse.ts'
import { MountedDrive, TestService } from '../support/mounted-drive.ts'

type Contents = Readonly<Record<string, string>>

/** Commands in a drive that tell when close failed (a shell's own printf does not), one after the other, and what the account holds before and after each. */
interface Operation {
  readonly title: string
  readonly commands: readonly string[]
  /** One more than commands. */
  readonly states: readonly Contents[]
}

const SAVED = '.goutputstream-AB12CD'

const OPERATIONS: readonly Operation[] = [
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
]

const MODES = ['through', 'back'] as const
type Mode = (typeof MODES)[number]

function otherMode(mode: Mode): Mode {
  return mode === 'back' ? 'through' : 'back'
}

/** An account, a mountpoint and a state directory for the mounts of one run, all gone when it ends. */
class Run {
  readonly dir: string
  readonly service: TestService
  readonly #drives: MountedDrive[] = []

  private constructor(dir: string, service: TestService) {
    this.dir = dir
    this.service = service
  }

  static async start(given: Contents): Promise<Run> {
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-crash-'))
    const service = await TestService.start(join(dir, 'service'))
    for (const [name, content] of Object.entries(given)) await service.upload(name, content)
    return new Run(dir, service)
  }

  async mount(mode: Mode, crashAt?: string): Promise<MountedDrive> {
    const { service, dir } = this
    const drive = await MountedDrive.mount(
      { url: service.proxy.url, token: service.token },
      { mountpoint: join(dir, 'drive'), stateDir: join(dir, 'state') },
      // No listing comes by chance, so that every run passes the same steps.
      ['--listing-ttl', '60s', ...(mode === 'back' ? ['--write-back'] : [])],
      crashAt === undefined ? {} : { BAGFS_CRASH_AT: crashAt },
    )
    this.#drives.push(drive)
    return drive
  }

  /** Uploads whose whole body reached the service, whether or not anybody heard the answer. */
  get wholeUploads(): number {
    return this.service.proxy.requests.filter(
      ({ method, path, headers, bodyBytes }) =>
        method === 'POST' &&
        path.endsWith('/upload') &&
        bodyBytes === Number(headers['content-length']),
    ).length
  }

  /** Names of the intents in the state directory that are not carried out. */
  unfinished(): readonly string[] {
    const files = readdirSync(join(this.dir, 'state'), { recursive: true, encoding: 'utf8' })
    return files
      .filter((path) => path.endsWith('/intent.json'))
      .map((path) => parseIntent(readFileSync(join(this.dir, 'state', path), 'utf8')))
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
async function runCommands(drive: MountedDrive, { commands }: Operation): Promise<number> {
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
async function end(drive: MountedDrive): Promise<void> {
  const { process } = drive
  if (process.exitCode !== null || process.signalCode !== null) return
  const exit = once(process, 'exit', { signal: AbortSignal.timeout(45_000) })
  process.kill('SIGTERM')
  await exit
}

async function filesOf(path: string): Promise<Contents> {
  const files: Record<string, string> = {}
  for (const name of await readdir(path)) files[name] = await readFile(join(path, name), 'utf8')
  return files
}

/** The steps of an operation that nothing disturbs, as crash points: `<step>:<n>`. */
async function findPoints(operation: Operation, mode: Mode): Promise<readonly string[]> {
  const run = await Run.start(operation.states[0] ?? {})
  try {
    const drive = await run.mount(mode, 'no.step')
    expect(await runCommands(drive, operation)).toBe(operation.commands.length)
    await end(drive)
    expect(await run.service.contents()).toEqual(operation.states.at(-1))
    const passed = new Map<string, number>()
    return [...drive.log.matchAll(/A step is passed\. step=([a-z.]+)/g)].map(([, step = '']) => {
      passed.set(step, (passed.get(step) ?? 0) + 1)
      return `${step}:${passed.get(step)}`
    })
  } finally {
    await run.end()
  }
}

/** Crashes at the point, mounts again in the mode `then`, and looks at what is left. */
async function crash(operation: Operation, mode: Mode, point: string, then: Mode): Promise<void> {
  const run = await Run.start(operation.states[0] ?? {})
  try {
    const drive = await run.mount(mode, point)
    const acknowledged = await runCommands(drive, operation)
    await end(drive)
    expect(drive.process.signalCode, 'The drive was not killed at the point').toBe('SIGKILL')
    await drive.kill()

    const again = await run.mount(then)
    const shown = await filesOf(again.path)
    const allowed = operation.states.slice(acknowledged, acknowledged + 2)
    expect(allowed, `${acknowledged} acknowledged`).toContainEqual(shown)
    await end(again)
    expect(again.process.exitCode).toBe(0)
    expect(run.unfinished()).toEqual([])
    // `contents` fails when two bags have one name.
    expect(await run.service.contents()).toEqual(shown)
    const uploads = run.service.uploads().slice(Object.keys(operation.states[0] ?? {}).length)
    expect(uploads).toEqual([...new Set(uploads)])
    expect(run.wholeUploads).toBe(uploads.length)
  } finally {
    await run.end()
  }
}

/** Runs tasks, `width` at a time; answers what failed. */
async function runAll(
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

describe.runIf(canMount())('a drive that is killed', () => {
  it('loses nothing and repeats nothing, whatever step it was killed at', async () => {
    const cases = OPERATIONS.flatMap((operation) => MODES.map((mode) => ({ operation, mode })))
    const points = new Map<(typeof cases)[number], readonly string[]>()
    const notFound = await runAll(
      cases.map((each) => ({
        title: `${each.operation.title}, ${each.mode}`,
        task: async () => {
          points.set(each, await findPoints(each.operation, each.mode))
        },
      })),
      3,
    )
    expect(notFound).toEqual([])
    const runs = [...points].flatMap(([{ operation, mode }, found]) =>
      found.map((point, index) => {
        const then = index % 2 === 0 ? mode : otherMode(mode)
        const title = `${operation.title}, ${mode}, ${point}, then ${then}`
        return { title, task: () => crash(operation, mode, point, then) }
      }),
    )
    const failures = await runAll(runs, 8)
    const steps = new Set([...points.values()].flat())
    console.info(
      `Crash matrix: ${steps.size} points, ${runs.length} runs, each killed at its point.`,
    )
    expect(failures).toEqual([])
    expect(runs.length).toBeGreaterThan(80)
  }, 400_000)

  it('loses nothing at any moment under load, also when the service goes away with it', async () => {
    const seed = Number(process.env['BAGFS_SEED'] ?? Date.now() % 1_000_000)
    console.info(`Random kills: BAGFS_SEED=${seed}`)
    const random = seededRandom(seed)
    const runs = Array.from({ length: 12 }, (_, index) => {
      const mode = MODES[index % 2] ?? 'through'
      const outage = index % 3 === 2
      const afterMs = 100 + random() * 1_500
      const title = `${mode}, killed after ${Math.round(afterMs)} ms${outage ? ', no service' : ''}`
      return { title, task: () => killUnderLoad(mode, afterMs, outage) }
    })
    expect(await runAll(runs, 3)).toEqual([])
  }, 200_000)
})

const LARGE = Buffer.alloc(300_000, 'large ')
/** Writes until the drive is dead: tells what it tries and what was acknowledged. */
const LOAD = `
i=0
while stat . > /dev/null; do
  i=$((i + 1))
  echo "try file $i"; /usr/bin/printf 'content %d' "$i" > "file $i" && echo "done file $i"
  echo "try log $i"; /usr/bin/printf 'round %d' "$i" > log && echo "done log $i"
  echo "try large $i"; cp "$LARGE" "large $i" && echo "done large $i"
done 2> /dev/null`

/** A linear congruential generator, so that a run can be repeated from its seed. */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

async function killUnderLoad(mode: Mode, afterMs: number, outage: boolean): Promise<void> {
  const run = await Run.start({})
  try {
    writeFileSync(join(run.dir, 'large'), LARGE)
    const drive = await run.mount(mode)
    const load = execa('bash', ['-c', LOAD], {
      cwd: drive.path,
      env: { LARGE: join(run.dir, 'large') },
      reject: false,
      timeout: 60_000,
      killSignal: 'SIGKILL',
    })
    if (outage) {
      await setTimeout(afterMs / 2)
      await run.service.proxy.down()
    }
    await setTimeout(outage ? afterMs / 2 : afterMs)
    expect(drive.process.signalCode ?? drive.process.exitCode).toBeNull()
    await drive.kill()
    const { stdout, timedOut } = await load
    expect(timedOut).toBe(false)
    await run.service.proxy.up()

    const again = await run.mount(otherMode(mode))
    await end(again)
    expect(run.unfinished()).toEqual([])
    checkLoad(await run.service.contents(), stdout.split('\n'))
    const tries = stdout.match(/^try /gm)?.length ?? 0
    expect(tries).toBeGreaterThan(0)
    expect(run.wholeUploads).toBeLessThanOrEqual(tries)
  } finally {
    await run.end()
  }
}

function checkLoad(contents: Contents, lines: readonly string[]): void {
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
