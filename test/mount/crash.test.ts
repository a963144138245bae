import { existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { deferred } from '../../src/domain/deferred.ts'
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
  TOGGLE,
  type Contents,
  type Mode,
  type Operation,
} from '../support/crash-run.ts'
import { canMount } from '../support/fuse.ts'
import { SEED, seededRandom } from '../support/seed.ts'

/** Of the points of an operation and a mode, each one of so many is followed by a mount, and the first one always. */
const MOUNTED_AGAIN = 7
/** Each point of each operation in both modes, which takes twice as long; else in one of them, in turns. */
const IS_EVERY_MODE = process.env['BAGFS_CRASH'] === 'all'

/** Uploads of content that comes back take their time, so that the next change overtakes them. */
async function begin({ states, isToggled }: Operation): Promise<CrashRun> {
  const run = await CrashRun.start(states[0] ?? {})
  if (isToggled === true) {
    run.service.proxy.add({ match: { method: 'POST' }, fault: { answerLatencyMs: 100 } })
  }
  return run
}

/** The steps of an operation that nothing disturbs, as crash points: `<step>:<n>`. */
async function findPoints(operation: Operation, mode: Mode): Promise<readonly string[]> {
  const run = await begin(operation)
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

/** How the drive is begun that comes after a crash. */
interface Then {
  readonly mode: Mode
  /** Mounted, or else in this process, which needs a tenth of the processor. */
  readonly isMounted: boolean
}

/** Everything that the drive after a crash shows; it sends all that waits. */
async function finish(run: CrashRun, { mode, isMounted }: Then): Promise<Contents> {
  if (!isMounted) return run.finishHere(mode)
  const drive = await run.mount(mode)
  const shown = await filesOf(drive.path)
  await end(drive)
  expect(drive.process.exitCode, drive.log.slice(-2_000)).toBe(0)
  return shown
}

/** Crashes at the point, begins a drive again, and looks at what is left. */
async function crash(operation: Operation, mode: Mode, point: string, then: Then): Promise<void> {
  const run = await begin(operation)
  try {
    const drive = await run.mount(mode, point)
    const acknowledged = await runCommands(drive, operation)
    await end(drive)
    const isKilled = drive.process.signalCode === 'SIGKILL'
    expect(isKilled || operation.isToggled, 'The drive was not killed at the point').toBe(true)
    await drive.kill()

    const shown = await finish(run, then)
    const allowed = operation.states.slice(acknowledged, acknowledged + 2)
    expect(allowed, `${acknowledged} acknowledged`).toContainEqual(shown)
    expect(run.unfinished()).toEqual([])
    // `contents` fails when two bags have one name.
    expect(await run.service.contents()).toEqual(shown)
    // What was stored before is live or in the trash, as it was.
    const there = [...Object.values(shown), ...(await run.trashed())]
    expect(there).toEqual(expect.arrayContaining(Object.values(operation.states[0] ?? {})))
    const uploads = run.service.uploads().slice(Object.keys(operation.states[0] ?? {}).length)
    if (operation.isToggled !== true) expect(uploads).toEqual([...new Set(uploads)])
    // What the kill cut after its last byte may be stored or not; all others are certain.
    const { wholeUploads, cutUploads } = run
    expect(cutUploads, 'Only the kill cuts an upload').toBeLessThanOrEqual(1)
    expect(uploads.length).toBeLessThanOrEqual(wholeUploads)
    expect(uploads.length).toBeGreaterThanOrEqual(wholeUploads - cutUploads)
  } finally {
    await run.end()
  }
}

interface Case {
  readonly operation: Operation
  readonly mode: Mode
}

interface CrashRunOf extends Case {
  readonly point: string
  readonly then: Then
}

/** Every point of every operation in one of the modes at least, and every step in both. */
function pointsInTurns(runs: readonly (readonly CrashRunOf[])[]): readonly CrashRunOf[] {
  const inTurns = runs.map((ofCase, at) => {
    const first = (at + Math.floor(at / MODES.length)) % 2
    return { some: ofCase.filter((_, index) => index % 2 === first), all: ofCase }
  })
  const stepOf = ({ mode, point }: CrashRunOf): string => `${mode} ${point.split(':')[0] ?? ''}`
  const some = inTurns.flatMap((each) => each.some)
  const steps = new Set(some.map(stepOf))
  const points = new Set(some.map(({ operation, point }) => `${operation.title} ${point}`))
  const others = inTurns
    .flatMap(({ all }) => all)
    .filter((run) => {
      const point = `${run.operation.title} ${run.point}`
      if (steps.has(stepOf(run)) && points.has(point)) return false
      steps.add(stepOf(run))
      points.add(point)
      return true
    })
  return [...some, ...others]
}

/** Crashes operations at each point; answers how many runs that took. */
async function crashAtAll(
  operations: readonly Operation[],
  { isEveryMode }: { readonly isEveryMode: boolean },
): Promise<number> {
  const cases = operations.flatMap((operation): Case[] =>
    MODES.map((mode) => ({ operation, mode })),
  )
  const points: (readonly string[])[] = []
  const notFound = await runAll(
    cases.map(({ operation, mode }, at) => ({
      title: `${operation.title}, ${mode}`,
      task: async () => {
        points[at] = await findPoints(operation, mode)
      },
    })),
    3,
  )
  expect(notFound).toEqual([])
  const all = cases.map(({ operation, mode }, at) =>
    (points[at] ?? []).map((point, index) => {
      // Two after each other are in the same of the modes, which are chosen in turns.
      const isSame = Math.floor(index / 2) % 2 === 0
      const then = { mode: isSame ? mode : otherMode(mode), isMounted: index % MOUNTED_AGAIN === 0 }
      return { ...{ operation, mode }, point, then }
    }),
  )
  const runs = isEveryMode ? all.flat() : pointsInTurns(all)
  const failures = await runAll(
    runs.map(({ operation, mode, point, then }) => ({
      title: `${operation.title}, ${mode}, ${point}, then ${then.mode}`,
      task: () => crash(operation, mode, point, then),
    })),
    4,
  )
  const steps = new Set(points.flat())
  console.info(`Crash matrix: ${steps.size} points, ${runs.length} runs.`)
  expect(failures).toEqual([])
  return runs.length
}

describe.runIf(canMount())('a drive that is killed', () => {
  it('loses nothing and repeats nothing, whatever step it was killed at', async () => {
    const isEveryMode = IS_EVERY_MODE
    expect(await crashAtAll(OPERATIONS, { isEveryMode })).toBeGreaterThan(80)
  })

  it('leaves one bag of content that comes back, and so its id, whatever step it was killed at', async () => {
    expect(await crashAtAll([TOGGLE], { isEveryMode: true })).toBeGreaterThan(40)
  })

  it.each([
    ['was answered', ['off', 'on'], 'upload.answered:2'],
    ['was answered, and older changes have left its bag', ['off', 'on'], 'update.written:5'],
    [
      'was answered once more, and older changes have left its bag',
      ['off', 'on', 'off'],
      'update.written:9',
    ],
  ])('shows content that comes back once when its upload %s', async (_, contents, point) => {
    await killWhileToggled(contents, point)
  })

  it('brings nothing back while finished changes are forgotten', async () => {
    const kills = [3, 24, 48, 70].map((nth) => ({
      title: `killed when ${nth} were forgotten`,
      task: () => killWhileForgetting(`remove.unlinked:${nth}`),
    }))
    expect(await runAll(kills, 4)).toEqual([])
  })

  it('loses nothing at any moment under load, also when the service goes away with it', async () => {
    console.info(`Random kills: BAGFS_SEED=${SEED}`)
    const random = seededRandom(SEED)
    const runs = Array.from({ length: 12 }, (_, index) => {
      const mode = MODES[index % 2] ?? 'through'
      const outage = index % 3 === 2
      const afterMs = 100 + random() * 1_500
      const title = `${mode}, killed after ${Math.round(afterMs)} ms${outage ? ', no service' : ''}`
      return { title, task: () => killUnderLoad(mode, afterMs, outage) }
    })
    expect(await runAll(runs, 3)).toEqual([])
  })
})

/**
 * The content of a file changes and comes back, the last time while the bag that comes back is being deleted. The next
 * mount has the listing of before for a while, and can send nothing until it has forgotten the older changes.
 */
async function killWhileToggled(contents: readonly string[], point: string): Promise<void> {
  const run = await CrashRun.start({ doc: 'on' })
  const { proxy } = run.service
  try {
    await (await run.mount('through')).leave()
    const drive = await run.mount('through', point)
    const mayDelete = deferred()
    proxy.add({
      match: { method: 'DELETE' },
      ...{ skip: contents.length - 2, times: 1, fault: { before: () => mayDelete.promise } },
    })
    const write = (content: string): Promise<string> => drive.sh(`/usr/bin/printf ${content} > doc`)
    for (const content of contents.slice(0, -1)) await write(content)
    const last = contents.at(-1) ?? ''
    const isCut = expect(write(last)).rejects.toThrow()
    const added = (): number => drive.log.match(/step=add\.written/g)?.length ?? 0
    await expect.poll(added).toBe(contents.length)
    mayDelete.resolve()
    await isCut
    await drive.ended()
    expect(drive.process.signalCode).toBe('SIGKILL')
    await drive.kill()
    const older = run.intentFiles().slice(0, -1)
    expect(older).toHaveLength(contents.length - 1)

    const mayList = deferred()
    proxy.add({ match: { path: /files_list/ }, fault: { before: () => mayList.promise } })
    const maySend = deferred()
    proxy.add({ match: { method: 'POST' }, fault: { before: () => maySend.promise } })
    const again = await run.mount('through', undefined, '--listing-ttl', '100ms')
    expect(await filesOf(again.path)).toEqual({ doc: last })
    mayList.resolve()
    const { requests } = proxy
    const listings = (): number =>
      requests.filter(({ path, isOver }) => isOver && path.endsWith('/files_list')).length
    let forgotten = Infinity
    // A file is gone a moment before the drive forgets its change: the second listing from then on was asked for later.
    while (listings() < forgotten + 2) {
      expect(await filesOf(again.path)).toEqual({ doc: last })
      if (!older.some((path) => existsSync(path))) forgotten = Math.min(forgotten, listings())
    }
    maySend.resolve()
    await end(again)
    expect(run.unfinished()).toEqual([])
    expect(await run.service.contents()).toEqual({ doc: last })
  } finally {
    await run.end()
  }
}

/** Prints the names that are gone for certain; what is superseded is forgotten at once, so the kill may come early. */
const REMOVE_EACH = `for i in $(seq 24); do
  { echo 1 > $i; echo 2 > $i; rm $i; } 2> /dev/null && echo $i
done; true`

/** Files that were written twice and removed; one listing makes all these changes unnecessary. */
async function killWhileForgetting(point: string): Promise<void> {
  const run = await CrashRun.start({})
  try {
    // The next listing must not come before the changes are made, on a busy machine too.
    const drive = await run.mount('through', point, '--listing-ttl', '35s')
    const removed = await drive.sh(REMOVE_EACH)
    while (drive.process.signalCode === null) {
      await setTimeout(200)
      // The drive asks for listings also unasked for a while, so it may be killed right before this look.
      await drive.sh('ls > /dev/null || true').catch((error: unknown) => {
        expect(String(error)).toContain('ENOTCONN')
      })
    }
    await drive.kill()
    const again = await run.mount('through')
    const left = Object.keys(await filesOf(again.path))
    expect(left.filter((name) => removed.split('\n').includes(name))).toEqual([])
  } finally {
    await run.end()
  }
}

async function killUnderLoad(mode: Mode, afterMs: number, outage: boolean): Promise<void> {
  const run = await CrashRun.start({})
  try {
    const drive = await run.mount(mode)
    const loadEnd = await startLoad(run, drive)
    if (outage) {
      await setTimeout(afterMs / 2)
      await run.service.proxy.down()
    }
    await setTimeout(outage ? afterMs / 2 : afterMs)
    expect(drive.process.signalCode ?? drive.process.exitCode).toBeNull()
    await drive.kill()
    const stdout = await loadEnd()
    await run.service.proxy.up()

    const again = await run.mount(otherMode(mode))
    await end(again)
    expect(run.unfinished()).toEqual([])
    checkLoad(await run.service.contents(), stdout.split('\n'))
    const tries = stdout.match(/^try /gm)?.length ?? 0
    expect(tries).toBeGreaterThan(0)
    // What the kill cut after its last byte is stored once more where it was not.
    expect(run.wholeUploads - run.cutUploads).toBeLessThanOrEqual(tries)
  } finally {
    await run.end()
  }
}
