import { join } from 'node:path'
import { makeFile } from './files.ts'
import { memoryOf } from './machine.ts'
import { isInstalled, run } from './processes.ts'
import { readWhole, type WholeRead } from './read-whole.ts'
import { inTurns, type Context, type Section } from './sections.ts'
import type { Mount, Subject } from './subject.ts'
import type { Table } from './table.ts'

const SIZE = 256 * 2 ** 20
const NAME = 'large.bin'
/** Read before: what is measured is a drive in use, not the first second of a process. */
const EARLIER = { name: 'earlier.bin', size: 32 * 2 ** 20 }

const rows = {
  newMount: { what: 'first byte of a new mount', unit: 'ms', better: 'lower' },
  firstByte: { what: 'first read: first byte', unit: 'ms', better: 'lower' },
  first: { what: 'first read: whole', unit: 'MB/s', better: 'higher' },
  dropped: { what: 'again, page cache dropped', unit: 'MB/s', better: 'higher' },
  warm: { what: 'again, page cache warm', unit: 'MB/s', better: 'higher' },
  random1: { what: '4 KiB random reads, 1 job', unit: 'IOPS', better: 'higher' },
  random4: { what: '4 KiB random reads, 4 jobs', unit: 'IOPS', better: 'higher' },
  idle: { what: 'memory of the mount, idle', unit: 'MB', better: 'lower' },
  most: { what: 'memory of the mount, most', unit: 'MB', better: 'lower' },
} as const

const KINDS = ['bagfs', 'bagfs over fuse-native', 'rclone', 'bare bridge'] as const

export const reading: Section = {
  title: 'Reading 256 MiB',
  subjects: [...KINDS, 'curl of bagfs', 'curl of webdav'],
  needs: ['curl', 'rclone'],
  async measure(context, table) {
    if (!isInstalled('fio')) console.error('fio is missing: no random reads are measured.')
    const path = await makeFile(context.places.memory, NAME, SIZE)
    const earlier = await makeFile(context.places.memory, EARLIER.name, EARLIER.size)
    const files = [
      { name: NAME, path },
      { name: EARLIER.name, path: earlier },
    ]
    await inTurns(context, KINDS, files, async (subject) => {
      await measureCurl(context, table, subject)
      const mount = await subject.mount()
      try {
        await measureMount(context, table, subject, mount)
      } finally {
        await mount.leave()
      }
    })
  },
}

async function measureMount(
  { machine }: Context,
  table: Table,
  { name }: Subject,
  mount: Mount,
): Promise<void> {
  const path = join(mount.path, NAME)
  // A fresh mount has nothing in the page cache: dropping it here would only throw out the programs.
  await machine.quiet()
  table.note(rows.idle, name, memoryOf(mount.pid).nowMb)
  const earlier = await readAll(join(mount.path, EARLIER.name), EARLIER.size)
  table.note(rows.newMount, name, earlier.firstByteMs)
  await machine.quiet()
  const first = await readAll(path, SIZE)
  table.note(rows.firstByte, name, first.firstByteMs)
  table.note(rows.first, name, first.mbPerS)
  machine.dropCaches()
  await machine.quiet()
  table.note(rows.dropped, name, (await readAll(path, SIZE)).mbPerS)
  table.note(rows.warm, name, (await readAll(path, SIZE)).mbPerS)
  if (isInstalled('fio')) {
    for (const [row, jobs] of [[rows.random1, 1] as const, [rows.random4, 4] as const]) {
      machine.dropCaches()
      await machine.quiet()
      table.note(row, name, await readAtRandom(path, jobs))
    }
  }
  table.note(rows.most, name, memoryOf(mount.pid).mostMb)
}

async function measureCurl({ machine }: Context, table: Table, subject: Subject): Promise<void> {
  await machine.quiet()
  const format = '%{time_starttransfer} %{time_total} %{size_download}'
  const { stdout } = await run('curl', [
    ...['-sS', '--fail', '-o', '/dev/null', '-w', format],
    ...subject.curl(NAME),
  ])
  const [first = 0, total = 0, size = 0] = stdout.split(' ').map(Number)
  if (size !== SIZE) throw new Error(`curl got ${size} of ${SIZE} bytes.`)
  const name = subject.name === 'rclone' ? 'curl of webdav' : 'curl of bagfs'
  table.note(rows.firstByte, name, first * 1e3)
  table.note(rows.first, name, size / 1e6 / total)
}

/** @throws Error when the file is not as long as it must be. */
async function readAll(path: string, size: number): Promise<WholeRead> {
  const read = await readWhole(path)
  if (read.bytes !== size) throw new Error(`${path}: ${read.bytes} of ${size} bytes were read.`)
  return read
}

/** Each block is read once at most, each job in its own part of the file: no read is a page cache hit. */
async function readAtRandom(path: string, jobs: number): Promise<number> {
  const part = SIZE / jobs
  const { stdout } = await run('fio', [
    ...['--name=random', `--filename=${path}`, '--readonly', '--rw=randread', '--bs=4k'],
    ...['--ioengine=psync', `--numjobs=${jobs}`, `--size=${part}`, `--offset_increment=${part}`],
    ...[`--io_size=${(64 * 2 ** 20) / jobs}`, '--runtime=20', '--group_reporting', '--thread'],
    '--output-format=json',
  ])
  const report = JSON.parse(stdout) as { jobs: { read: { iops: number } }[] }
  const [job] = report.jobs
  if (job === undefined) throw new Error('fio reported no job.')
  return job.read.iops
}
