import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { BagfsSubject } from './bagfs-subject.ts'
import { memoryIfRunning, memoryOf } from './machine.ts'
import { run } from './processes.ts'
import { readWhole } from './read-whole.ts'
import type { Context, Section } from './sections.ts'
import type { Mount } from './subject.ts'
import type { Row, Table } from './table.ts'
import { makeZipOfBig, makeZipOfMany, smallFile } from './zips.ts'
import { mountZip } from './zip-mounts.ts'

const MANY = 10_000
/** Files read around the middle of the zip in each run. */
const SMALL_READS = 21
const BIG = 500_000_000
/** archivemount begins anew for each read of a stored entry: it would take longer than all the rest. */
const STREAM_LIMIT_MS = 20_000
const FOLDER = 'folder'

const SUBJECTS = ['bagfs', 'fuse-zip', 'archivemount', 'unzip'] as const
type Kind = (typeof SUBJECTS)[number]

const rows = {
  open: { what: 'open to first `ls`', unit: 'ms', better: 'lower' },
  mount: { what: 'the same, the start of the drive counted', unit: 'ms', better: 'lower' },
  small: { what: 'one small file in the middle', unit: 'ms', better: 'lower' },
  find: { what: '`find` over all', unit: 'ms', better: 'lower' },
  long: { what: '`ls -lR`', unit: 'ms', better: 'lower' },
  stream: { what: 'streaming the big entry', unit: 'MB/s', better: 'higher' },
  again: { what: 'streaming it again', unit: 'MB/s', better: 'higher' },
  most: { what: 'memory, most', unit: 'MB', better: 'lower' },
} satisfies Record<string, Omit<Row, 'figures'>>

/** A zip that all subjects have on the local disk, and the drive in its cache. */
interface Zip {
  readonly path: string
  readonly subject: BagfsSubject
}

/** One subject with the zip open. */
interface Opened {
  readonly context: Context
  readonly table: Table
  readonly kind: Exclude<Kind, 'unzip'>
  readonly mount: Mount
  /** The zip's tree. */
  readonly tree: string
}

export const folderMany: Section = {
  title: 'A zip of 10,000 small files, on the local disk',
  subjects: SUBJECTS,
  needs: ['zip', 'unzip', 'fuse-zip', 'archivemount'],
  measure: (context, table) =>
    measureZip(context, table, {
      make: () => makeZipOfMany(context.places.memory, FOLDER, MANY),
      mounted: async (opened) => {
        await measureSmall(opened)
        await timed(opened, rows.find, 'find', [opened.tree])
        await timed(opened, rows.long, 'ls', ['-lR', opened.tree])
      },
      unzip: async (zip) => {
        const middle = smallFile(MANY / 2)
        table.note(rows.small, 'unzip', (await run('unzip', ['-p', zip, middle])).ms)
        table.note(rows.find, 'unzip', (await run('unzip', ['-Z1', zip])).ms)
        table.note(rows.long, 'unzip', (await run('unzip', ['-Z', zip])).ms)
        table.note(rows.most, 'unzip', await memoryWhile('unzip', ['-p', zip]))
      },
    }),
}

export const folderBigStored = big('stored', 'random bytes, stored')
export const folderBigDeflated = big('deflated', 'text of random words, deflated')

function big(level: 'stored' | 'deflated', words: string): Section {
  return {
    title: `A zip with an entry of 500 MB (${words}), on the local disk`,
    subjects: SUBJECTS,
    needs: ['zip', 'unzip', 'fuse-zip', 'archivemount'],
    measure: (context, table) =>
      measureZip(context, table, {
        make: () => makeZipOfBig(context.places.memory, FOLDER, BIG, level),
        mounted: measureStreams,
        unzip: async (zip) => {
          const { ms } = await run('sh', ['-c', 'unzip -p "$0" > /dev/null', zip])
          table.note(rows.stream, 'unzip', BIG / 1e3 / ms)
          table.note(rows.most, 'unzip', await memoryWhile('unzip', ['-p', zip]))
        },
      }),
  }
}

/** What is measured with a zip. */
interface Measurements {
  readonly make: () => Promise<string>
  readonly mounted: (opened: Opened) => Promise<void>
  readonly unzip: (zip: string) => Promise<void>
}

async function measureZip(context: Context, table: Table, what: Measurements): Promise<void> {
  const zip = await prepare(context, await what.make())
  try {
    for (let round = 0; round < context.runs; round += 1) {
      for (const kind of SUBJECTS) {
        if (context.only !== undefined && context.only !== kind) continue
        await readWhole(zip.path)
        await context.machine.quiet()
        if (kind !== 'unzip') await measureMounted(context, table, { kind, zip, what })
        else {
          table.note(rows.open, kind, (await run('unzip', ['-Z1', zip.path])).ms)
          await what.unzip(zip.path)
        }
      }
    }
  } finally {
    await zip.subject.close()
    rmSync(zip.path)
  }
}

/** Puts the zip onto the disk, and through a mount of its own into the drive's cache. */
async function prepare({ processes, places }: Context, made: string): Promise<Zip> {
  const settings = { name: 'bagfs', writeBack: false }
  const seeds = [{ name: FOLDER, path: made, isFolder: true }]
  const subject = await BagfsSubject.start(processes, places, settings, seeds)
  const path = join(places.disk, basename(made))
  copyFileSync(made, path)
  rmSync(made)
  await subject.fillCache(FOLDER)
  return { path, subject }
}

async function measureMounted(
  context: Context,
  table: Table,
  { kind, zip, what }: { kind: Opened['kind']; zip: Zip; what: Measurements },
): Promise<void> {
  const { processes, places } = context
  const startedMs = performance.now()
  const mount =
    kind === 'bagfs'
      ? await zip.subject.mount({ keepsState: true })
      : await mountZip(processes, places, kind, zip.path)
  try {
    const tree = kind === 'bagfs' ? join(mount.path, FOLDER) : mount.path
    const mountedMs = performance.now()
    await run('ls', [tree])
    const listedMs = performance.now()
    // The drive runs anyway; the others are started for each zip.
    table.note(rows.open, kind, listedMs - (kind === 'bagfs' ? mountedMs : startedMs))
    table.note(rows.mount, kind, listedMs - startedMs)
    await what.mounted({ context, table, kind, mount, tree })
    table.note(rows.most, kind, memoryOf(mount.pid).mostMb)
  } finally {
    await mount.leave()
  }
}

/** The median is taken over single files, none of which is read twice. */
async function measureSmall({ table, kind, tree }: Opened): Promise<void> {
  for (let number = 0; number < SMALL_READS; number += 1) {
    const path = join(tree, smallFile(MANY / 2 + 7 * number))
    const startedMs = performance.now()
    const bytes = await readFile(path)
    table.note(rows.small, kind, performance.now() - startedMs)
    if (bytes.length === 0) throw new Error(`${path} was read as empty.`)
  }
}

async function timed(
  { context, table, kind }: Opened,
  row: Omit<Row, 'figures'>,
  command: string,
  args: readonly string[],
): Promise<void> {
  await context.machine.quiet()
  table.note(row, kind, (await run(command, args)).ms)
}

async function measureStreams({ table, kind, tree }: Opened): Promise<void> {
  const path = join(tree, 'big.bin')
  for (const row of [rows.stream, rows.again]) {
    const { bytes, mbPerS, seconds } = await readWhole(path, STREAM_LIMIT_MS)
    table.note(row, kind, mbPerS)
    if (bytes === BIG) continue
    if (seconds * 1e3 < STREAM_LIMIT_MS) throw new Error(`${path}: only ${bytes} bytes.`)
    const read = `${Math.round(bytes / 1e6)} of ${BIG / 1e6} MB`
    table.remark(`${kind} was stopped after ${seconds.toFixed(0)} s, when it had read ${read}.`)
    return
  }
}

/** The most memory that a command had, in MB, as far as that is seen from outside. */
async function memoryWhile(command: string, args: readonly string[]): Promise<number> {
  const child = spawn(command, args, { stdio: 'ignore' })
  const ended = once(child, 'exit')
  let most = 0
  const timer = setInterval(() => {
    // It may have ended, and not have been waited for yet.
    const memory = child.pid === undefined ? undefined : memoryIfRunning(child.pid)
    most = Math.max(most, memory?.mostMb ?? 0)
  }, 2)
  try {
    await ended
  } finally {
    clearInterval(timer)
  }
  return most
}
