import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BagfsSubject } from './bagfs-subject.ts'
import { memoryOf } from './machine.ts'
import { run } from './processes.ts'
import type { Context, Section } from './sections.ts'
import { SlowLine } from './slow-line.ts'
import type { Mount } from './subject.ts'
import type { Row, Table } from './table.ts'
import { makeZipOfMany, makeZipOfParts } from './zips.ts'

const FOLDER = 'folder'
const SMALL = 'small 050.txt'
const SMALL_BYTES = 1000
const CURL = 'curl of the same zip'
const ALONE = "bagfs's own upload of it alone"
const LINE_BYTES_PER_S = 20_000_000
const PART = 10_000_000
const TREE = 100_000
/** The time of rest is a wait by choice, not work. */
const SETTLE = '50ms'
const POLL_MS = 50
const ARRIVAL_LIMIT_MS = 120_000

/** Folders of 1 GB and 500 MB, in entries of 10 MB. */
const LINE_PARTS = 100
const CHANGE_PARTS = 50

/** First time: nothing of the folder is on this machine. */
export const folderLine: Section = {
  title: 'One small file of a folder of 1 GB, first time over a line of 20 MB/s',
  subjects: ['bagfs'],
  needs: ['zip'],
  measure: (context, table) =>
    withFolder(context, {
      options: [],
      make: (memory) => makeZipOfParts(memory, FOLDER, LINE_PARTS, PART),
      round: async ({ subject }) => {
        await overLine(subject, async (line) => {
          line.bytesPerS = LINE_BYTES_PER_S
          await readOverLine(subject, line, table)
        })
      },
    }),
}

async function readOverLine(subject: BagfsSubject, line: SlowLine, table: Table): Promise<void> {
  const mount = await subject.mount({ url: line.url })
  const before = line.received
  try {
    const startedMs = performance.now()
    const bytes = await readFile(join(mount.path, FOLDER, SMALL))
    table.note(row('until it is read', 's'), 'bagfs', (performance.now() - startedMs) / 1e3)
    if (bytes.length !== SMALL_BYTES) throw new Error(`${SMALL} has ${bytes.length} bytes.`)
    table.note(row('fetched by then', 'MB'), 'bagfs', (line.received - before) / 1e6)
  } finally {
    await mount.leave()
  }
  table.note(row('fetched until the drive has left', 'MB'), 'bagfs', (line.received - before) / 1e6)
}

async function overLine<Result>(
  subject: BagfsSubject,
  work: (line: SlowLine) => Promise<Result>,
): Promise<Result> {
  const line = await SlowLine.open(subject.port, Infinity)
  try {
    return await work(line)
  } finally {
    await line.close()
  }
}

/** From the close of a file to the bag at the service, against sending the same zip by itself. */
export const folderChange: Section = {
  title: `One file of 1 KB changed in a folder of 500 MB (\`--folder-settle ${SETTLE}\`)`,
  subjects: ['bagfs', CURL, ALONE],
  needs: ['zip', 'curl'],
  measure: (context, table) =>
    withFolder(context, {
      options: ['--folder-settle', SETTLE],
      make: (memory) => makeZipOfParts(memory, FOLDER, CHANGE_PARTS, PART),
      round: async (given, round) => {
        if (round === 0) await given.subject.fillCache(FOLDER)
        await changeOnce(context, table, given)
        // At the end, as it begins with a cache of its own. The line's own time does not vary much.
        if (round === context.runs - 1) await changeOverLine(table, given)
      },
    }),
}

async function changeOnce({ machine }: Context, table: Table, given: Given): Promise<void> {
  const what = row('the service has it', 's')
  await machine.quiet()
  table.note(what, CURL, await upload(given))
  await machine.quiet()
  table.note(what, ALONE, await uploadAlone(given))
  await machine.quiet()
  const { seconds, mostMb } = await change(given)
  table.note(what, 'bagfs', seconds)
  table.note(row('memory of the mount, most', 'MB'), 'bagfs', mostMb)
}

async function changeOverLine(table: Table, given: Given): Promise<void> {
  const what = row('the service has it, over a line of 20 MB/s, once', 's')
  await overLine(given.subject, async (line) => {
    const { url } = line
    await given.subject.fillCache(FOLDER, url)
    line.bytesPerS = LINE_BYTES_PER_S
    table.note(what, CURL, await upload(given, url))
    table.note(what, 'bagfs', (await change(given, url)).seconds)
  })
}

async function upload({ subject, zip }: Given, url?: string): Promise<number> {
  const name = 'sent by itself'
  const { ms } = await run('curl', ['-sS', '--fail', ...subject.curlUpload(zip, name, url)])
  const bagId = await subject.listedBag(name)
  if (bagId === undefined) throw new Error('The service has no zip from curl.')
  await subject.remove(bagId)
  return ms / 1e3
}

async function uploadAlone({ subject, zip }: Given): Promise<number> {
  const startedMs = performance.now()
  const bagId = await subject.sendAlone(zip, 'sent by itself')
  const seconds = (performance.now() - startedMs) / 1e3
  await subject.remove(bagId)
  return seconds
}

/** In a mount of its own: a folder rests for as long as its last upload took. */
async function change(
  { subject }: Given,
  url?: string,
): Promise<{ readonly seconds: number; readonly mostMb: number }> {
  const mount = await subject.mount({ keepsState: true, ...(url === undefined ? {} : { url }) })
  try {
    const before = await subject.listedBag(FOLDER)
    const path = join(mount.path, FOLDER, SMALL)
    // Opening the folder is not a part of the change.
    await readFile(path)
    await writeFile(path, randomBytes(SMALL_BYTES))
    const closedMs = performance.now()
    for (;;) {
      const now = await subject.listedBag(FOLDER)
      if (now !== undefined && now !== before) break
      if (performance.now() - closedMs > ARRIVAL_LIMIT_MS) throw new Error('The folder stays.')
      await sleep(POLL_MS)
    }
    const seconds = (performance.now() - closedMs) / 1e3
    return { seconds, mostMb: memoryOf(mount.pid).mostMb }
  } finally {
    await mount.leave()
  }
}

export const folderTree: Section = {
  title: 'A zip of 100,000 entries, in the cache',
  subjects: ['bagfs'],
  needs: ['zip'],
  measure: (context, table) =>
    withFolder(context, {
      options: [],
      make: (memory) => makeZipOfMany(memory, FOLDER, TREE),
      round: async ({ subject }, round) => {
        if (round === 0) await subject.fillCache(FOLDER)
        const mount = await subject.mount({ keepsState: true })
        try {
          await context.machine.quiet()
          await lookThrough(mount, table)
        } finally {
          await mount.leave()
        }
      },
    }),
}

async function lookThrough({ path, pid }: Mount, table: Table): Promise<void> {
  const tree = join(path, FOLDER)
  table.note(row('memory before', 'MB'), 'bagfs', memoryOf(pid).nowMb)
  table.note(row('first `ls`: the tree is made', 'ms'), 'bagfs', (await run('ls', [tree])).ms)
  table.note(row('memory after it, most', 'MB'), 'bagfs', memoryOf(pid).mostMb)
  table.note(row('`find` over all', 'ms'), 'bagfs', (await run('find', [tree])).ms)
  table.note(row('memory after that, most', 'MB'), 'bagfs', memoryOf(pid).mostMb)
}

/** A folder at the service, and the zip of it on tmpfs. */
interface Given {
  readonly subject: BagfsSubject
  readonly zip: string
}

interface Rounds {
  /** Further arguments of `bagfs mount`. */
  readonly options: readonly string[]
  readonly make: (memory: string) => Promise<string>
  readonly round: (given: Given, round: number) => Promise<void>
}

async function withFolder(
  { processes, places, runs }: Context,
  { options, make, round }: Rounds,
): Promise<void> {
  const zip = await make(places.memory)
  const settings = { name: 'bagfs', writeBack: false, options }
  const seeds = [{ name: FOLDER, path: zip, isFolder: true }]
  const subject = await BagfsSubject.start(processes, places, settings, seeds)
  try {
    for (let number = 0; number < runs; number += 1) await round({ subject, zip }, number)
  } finally {
    await subject.close()
    rmSync(zip)
  }
}

function row(what: string, unit: string): Omit<Row, 'figures'> {
  return { what, unit, better: 'lower' }
}
