import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { execa } from 'execa'
import { describe, expect, it } from 'vitest'
import {
  checkLoad,
  CrashRun,
  end,
  filesOf,
  MODES,
  OPERATIONS,
  otherMode,
  runAll,
  runCommands,
  startLoad,
  type Contents,
  type Mode,
  type Operation,
} from '../support/crash-run.ts'
import { canMount } from '../support/fuse.ts'
import { SEED, seededRandom } from '../support/seed.ts'
import { TestService } from '../support/mounted-drive.ts'
import type { MountedDrive } from '../support/mounted-drive.ts'
import { ServiceProcess } from '../support/service-process.ts'
import { unpackFolder } from '../support/unpacked.ts'

const FOLDER = 'F'
/** A folder in the account is changed; both are compared by what is in them. */
const FOLDERS: readonly Operation[] = [
  {
    title: 'new folder',
    commands: [
      `mkdir ${FOLDER}; /usr/bin/printf one > ${FOLDER}/a && /usr/bin/printf two > ${FOLDER}/b`,
    ],
    states: [{ other: 'other' }, { other: 'other', 'F/a': 'one', 'F/b': 'two' }],
  },
]

/** Where a run kills: at a moment of the n-th request of a kind. */
interface Point {
  readonly method: 'POST' | 'DELETE'
  readonly turn: number
  readonly moment: 'sending' | 'sent' | 'answered'
  /** Milliseconds that the service has for its work before it is killed. */
  readonly afterMs: number
}

const UPLOAD_POINTS = [
  { moment: 'sending', afterMs: 0 },
  { moment: 'sent', afterMs: 0 },
  { moment: 'sent', afterMs: 4 },
  { moment: 'answered', afterMs: 0 },
] as const
const DELETE_POINTS = [
  { moment: 'sent', afterMs: 0 },
  { moment: 'answered', afterMs: 0 },
] as const

/** Requests that an operation makes, uploads and deletes. */
const REQUESTS: Readonly<Record<string, { readonly uploads: number; readonly deletes: number }>> = {
  put: { uploads: 1, deletes: 0 },
  overwrite: { uploads: 1, deletes: 1 },
  rename: { uploads: 1, deletes: 1 },
  'rename over': { uploads: 1, deletes: 2 },
  delete: { uploads: 0, deletes: 1 },
  'save by temp file': { uploads: 1, deletes: 1 },
  'new folder': { uploads: 1, deletes: 0 },
}

function uploadsOf({ title }: Operation): number {
  return REQUESTS[title]?.uploads ?? 0
}

function pointsOf({ title }: Operation): readonly Point[] {
  const { uploads = 0, deletes = 0 } = REQUESTS[title] ?? {}
  const turns = (count: number): readonly number[] => Array.from({ length: count }, (_, at) => at)
  return [
    ...turns(uploads).flatMap((turn) =>
      UPLOAD_POINTS.map((point) => ({ method: 'POST' as const, turn, ...point })),
    ),
    ...turns(deletes).flatMap((turn) =>
      DELETE_POINTS.map((point) => ({ method: 'DELETE' as const, turn, ...point })),
    ),
  ]
}

async function start(given: Contents): Promise<{ run: CrashRun; service: ServiceProcess }> {
  const started: ServiceProcess[] = []
  const run = await CrashRun.start(given, async (dir) => {
    const process = await ServiceProcess.start(dir)
    started.push(process)
    return TestService.startIn(process)
  })
  const [service] = started
  if (service === undefined) throw new Error('There is no service.')
  return { run, service }
}

/** Every file by its path: of the drive, its folders included. */
async function treeOf(path: string): Promise<Contents> {
  const { stdout } = await execa('find', ['.', '-type', 'f', '-printf', '%P\n'], { cwd: path })
  const names = stdout.split('\n').filter((name) => name !== '')
  const all: Record<string, string> = {}
  for (const name of names) {
    all[name] = (await execa('cat', [name], { cwd: path, stripFinalNewline: false })).stdout
  }
  return all
}

/** The same of the account, as another client sees it; fails when two bags have one name. */
async function treeAtService({ service, dir }: CrashRun): Promise<Contents> {
  const names = (await service.list()).map(({ filename }) => filename)
  if (!names.includes(FOLDER)) return service.contents()
  const unpacked = join(dir, 'unpacked')
  await unpackFolder(service, FOLDER, unpacked)
  const inside = Object.entries(await filesOf(unpacked))
  const files = Object.entries(await service.contents()).filter(([name]) => name !== FOLDER)
  return Object.fromEntries([
    ...files,
    ...inside.map(([name, text]) => [`${FOLDER}/${name}`, text] as const),
  ])
}

/** Kills the service at the point, and with it the drive when `both`; then all goes on. */
async function crash(
  operation: Operation,
  point: Point,
  { mode, both }: { readonly mode: Mode; readonly both: boolean },
): Promise<void> {
  const { run, service } = await start(operation.states[0] ?? {})
  try {
    let drive = await run.mount(mode)
    const killed = new Promise<boolean>((resolve) => {
      const act = (): void => {
        const kill = (): void => {
          if (both) drive.signal('SIGKILL')
          resolve(service.kill())
        }
        if (point.afterMs === 0) kill()
        else globalThis.setTimeout(kill, point.afterMs)
      }
      run.service.proxy.add({
        match: { method: point.method },
        skip: point.turn,
        times: 1,
        fault: { at: { moment: point.moment, act } },
      })
    })
    const doing = runCommands(drive, operation)
    expect(await Promise.race([killed, setTimeout(120_000, 'no such moment')])).toBe(true)
    const acknowledged = await doing
    await service.restart()
    if (both) {
      await drive.kill()
      drive = await run.mount(otherMode(mode))
    }
    await check(run, drive, operation, acknowledged)
    // What the service had done is found in its listing and not sent again.
    if (point.moment === 'answered') expect(run.wholeUploads).toBe(uploadsOf(operation))
  } finally {
    await run.end()
  }
}

async function check(
  run: CrashRun,
  drive: MountedDrive,
  operation: Operation,
  acknowledged: number,
): Promise<void> {
  const allowed = operation.states.slice(acknowledged, acknowledged + 2)
  // The drive may not have noticed yet that the service is back.
  await expect
    .poll(() =>
      treeOf(drive.path).then(
        () => true,
        () => false,
      ),
    )
    .toBe(true)
  const shown = await treeOf(drive.path)
  expect(allowed, `${acknowledged} acknowledged`).toContainEqual(shown)
  await expect.poll(() => run.unfinished()).toEqual([])
  await end(drive)
  expect(drive.process.exitCode).toBe(0)
  expect(await treeAtService(run)).toEqual(shown)
}

describe.runIf(canMount())('a service that is killed', () => {
  it('and started again has everything once, whatever it was doing', async () => {
    const points = [...OPERATIONS, ...FOLDERS].flatMap((operation) =>
      pointsOf(operation).map((point) => ({ operation, point })),
    )
    const runs = points.map(({ operation, point }, index) => {
      const mode = MODES[index % 2] ?? 'through'
      const both = index % 3 === 2
      const { method, turn, moment, afterMs } = point
      const title = `${operation.title}, ${mode}, ${method} ${turn} ${moment} +${afterMs} ms${both ? ', both' : ''}`
      return { title, both, task: () => crash(operation, point, { mode, both }) }
    })
    const failures = await runAll(runs, 6)
    console.info(
      `Service killed: ${runs.length} points, ${runs.filter(({ both }) => both).length} of them with the drive.`,
    )
    expect(failures).toEqual([])
    expect(runs.length).toBeGreaterThan(25)
  })

  it('loses nothing at any moment under load, with the drive or without it', async () => {
    const random = seededRandom(SEED)
    const runs = Array.from({ length: 4 }, (_, index) => {
      const mode = MODES[index % 2] ?? 'through'
      const moments = Array.from({ length: 3 }, () => 50 + random() * 900)
      const title = `${mode}, killed after ${moments.map(Math.round).join(', ')} ms`
      return { title, task: () => killUnderLoad(mode, moments) }
    })
    const failures = await runAll(runs, 4)
    console.info(`Service killed under load: ${runs.length * 3} kills, BAGFS_SEED=${SEED}.`)
    expect(failures).toEqual([])
  })
})

/** Kills the service at each of the moments while programs write, and the drive with it at the last. */
async function killUnderLoad(mode: Mode, moments: readonly number[]): Promise<void> {
  const { run, service } = await start({})
  try {
    const drive = await run.mount(mode)
    const loadEnd = await startLoad(run, drive)
    for (const [index, afterMs] of moments.entries()) {
      await setTimeout(afterMs)
      expect(service.kill()).toBe(true)
      if (index === moments.length - 1) await drive.kill()
      await service.restart()
    }
    const stdout = await loadEnd()
    const again = await run.mount(otherMode(mode))
    await expect.poll(() => run.unfinished()).toEqual([])
    await end(again)
    checkLoad(await run.service.contents(), stdout.split('\n'))
    expect(stdout).toMatch(/^try /m)
  } finally {
    await run.end()
  }
}
