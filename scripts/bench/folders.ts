import { mkdirSync, statSync } from 'node:fs'
import { open, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BagfsSubject } from './bagfs-subject.ts'
import { memoryOf } from './machine.ts'
import { run } from './processes.ts'
import type { Context, Section } from './sections.ts'
import { SlowLink } from './slow-link.ts'
import type { Mount, SeedFile } from './subject.ts'
import type { Table } from './table.ts'
import { zipMounters } from './zip-mounts.ts'
import { fillWithLarge, fillWithSmall, fillWithText, makeZip } from './zips.ts'

const MB = 1_000_000
const LARGE_BYTES = 500 * MB
const LINK_BYTES_PER_S = 20 * MB
const BLOCK = 2 ** 20
/** archivemount needs minutes for what others stream in a second: what it had come to by then counts. */
const STREAM_LIMIT_MS = 20_000
const SETTINGS = { name: 'bagfs', writeBack: false, mountArgs: ['--folder-settle', '50ms'] }

const SMALL = { directories: 100, files: 100, size: 2048 }
const SMALL_PATH = 'd050/f050.txt'
const LARGE_PATH = 'large000.bin'

const row = (what: string, unit: string, better: 'lower' | 'higher' = 'lower') => {
  return { what, unit, better }
}

/** A zip as a folder, its zip on this machine already. */
export const folders: Section = {
  title: 'Folders, the zip in the cache',
  subjects: ['bagfs', 'fuse-zip', 'archivemount', 'unzip'],
  async measure(context, table) {
    const zips = join(context.places.memory, 'zips')
    mkdirSync(zips)
    const seeds: readonly SeedFile[] = [
      await seed(zips, 'small', 1, (at) => fillWithSmall(at, SMALL)),
      await seed(zips, 'stored', 0, (at) => fillWithLarge(at, { files: 1, size: LARGE_BYTES })),
      await seed(zips, 'deflated', 1, (at) => fillWithText(at, LARGE_BYTES)),
    ]
    const subject = await BagfsSubject.start(context.processes, context.places, SETTINGS, seeds)
    try {
      for (let round = 0; round < context.runs; round += 1) {
        for (const { name, path } of seeds) {
          await measureBagfs(context, table, subject, name)
          await measureMounters(context, table, { name, path })
          await measureUnzip(context, table, { name, path })
        }
      }
    } finally {
      await subject.close()
    }
  },
}

function seed(
  zips: string,
  name: string,
  level: 0 | 1,
  fill: (directory: string) => Promise<void>,
): Promise<SeedFile> {
  return makeZip(zips, name, level, fill).then((path) => ({ name, path, isFolder: true }))
}

async function measureBagfs(
  { machine }: Context,
  table: Table,
  subject: BagfsSubject,
  name: string,
): Promise<void> {
  const mount = await mountWithCached(subject, name)
  try {
    await machine.quiet()
    await measureTree(table, { subject: 'bagfs', name, mount, root: join(mount.path, name) }, 0)
  } finally {
    await mount.leave()
  }
}

/** A fresh mount that has the whole zip of a folder on this machine. */
async function mountWithCached(subject: BagfsSubject, name: string): Promise<Mount> {
  const first = await subject.mount()
  try {
    await readFor(join(first.path, '.bags', subject.bagOf(name)), Infinity)
  } finally {
    await first.leave()
  }
  return subject.mount({ keepsState: true })
}

async function measureMounters(
  { machine, processes, places, only }: Context,
  table: Table,
  { name, path }: SeedFile,
): Promise<void> {
  if (only !== undefined && only !== 'peers') return
  for (const mounter of zipMounters(processes, places.disk)) {
    await machine.quiet()
    const startedMs = performance.now()
    const mount = await mounter.mount(path)
    const mountMs = performance.now() - startedMs
    try {
      const place = { subject: mounter.name, name, mount, root: mount.path }
      await measureTree(table, place, mountMs)
    } finally {
      await mount.leave()
    }
  }
}

interface Place {
  readonly subject: string
  readonly name: string
  readonly mount: Mount
  readonly root: string
}

/** `mountMs` went by before the zip could be looked into. */
async function measureTree(table: Table, place: Place, mountMs: number): Promise<void> {
  const { subject, name, mount, root } = place
  const { ms } = await run('ls', [root])
  if (name === 'small') {
    table.note(row('10,000 small files: open to first `ls`', 'ms'), subject, mountMs + ms)
    const file = await timed(() => readFile(join(root, SMALL_PATH)))
    table.note(row('10,000 small files: one in the middle', 'ms'), subject, file.ms)
    for (const time of ['first', 'again']) {
      const found = await run('find', [root, '-type', 'f', '-size', '+0'])
      table.note(row(`10,000 small files: \`find\`, ${time}`, 'ms'), subject, found.ms)
    }
  } else {
    const first = await timed(() => readFor(join(root, LARGE_PATH), 0))
    table.note(row(`500 MB ${name}: first block`, 'ms'), subject, first.ms)
    const speed = await readFor(join(root, LARGE_PATH), STREAM_LIMIT_MS)
    table.note(row(`500 MB ${name}: stream`, 'MB/s', 'higher'), subject, speed)
  }
  table.note(row(`${name}: memory, most`, 'MB'), subject, memoryOf(mount.pid).mostMb)
}

async function measureUnzip(
  { machine, only }: Context,
  table: Table,
  { name, path }: SeedFile,
): Promise<void> {
  if (only !== undefined && only !== 'peers') return
  await machine.quiet()
  const discard = (...args: string[]) => run('sh', ['-c', 'unzip "$@" > /dev/null', 'sh', ...args])
  if (name === 'small') {
    const list = await discard('-Z1', path)
    table.note(row('10,000 small files: open to first `ls`', 'ms'), 'unzip', list.ms)
    const file = await discard('-p', path, SMALL_PATH)
    table.note(row('10,000 small files: one in the middle', 'ms'), 'unzip', file.ms)
    return
  }
  const { ms } = await discard('-p', path, LARGE_PATH)
  table.note(row(`500 MB ${name}: stream`, 'MB/s', 'higher'), 'unzip', LARGE_BYTES / 1e3 / ms)
}

/** Reads until the end or the limit, one block at least; resolves with MB per second. */
async function readFor(path: string, limitMs: number): Promise<number> {
  const buffer = Buffer.allocUnsafe(BLOCK)
  const startedMs = performance.now()
  const file = await open(path, 'r')
  try {
    for (let position = 0; ;) {
      const { bytesRead } = await file.read(buffer, 0, BLOCK, position)
      position += bytesRead
      const passedMs = performance.now() - startedMs
      if (bytesRead === 0 || passedMs >= limitMs) return position / 1e3 / passedMs
    }
  } finally {
    await file.close()
  }
}

async function timed(work: () => Promise<unknown>): Promise<{ readonly ms: number }> {
  const startedMs = performance.now()
  await work()
  return { ms: performance.now() - startedMs }
}

/** What is special to a folder at a service: ranges, and storing a change. */
export const folderChanges: Section = {
  title: 'Folders at the service',
  subjects: ['bagfs'],
  async measure(context, table) {
    const zips = join(context.places.memory, 'far-zips')
    mkdirSync(zips)
    const middle = { directories: 1, files: 100, size: 2048 }
    const seeds = [
      await seed(zips, 'changed', 0, async (at) => {
        await fillWithLarge(at, { files: 100, size: 5 * MB })
        await writeFile(join(at, 'small.txt'), 'x'.repeat(1024))
      }),
      await seed(zips, 'huge', 0, async (at) => {
        await fillWithSmall(at, middle)
        await fillWithLarge(at, { files: 10, size: 100 * MB })
      }),
      await seed(zips, 'crowd', 0, (at) =>
        fillWithSmall(at, { directories: 100, files: 1_000, size: 16 }),
      ),
    ]
    const subject = await BagfsSubject.start(context.processes, context.places, SETTINGS, seeds)
    try {
      for (let round = 0; round < context.runs; round += 1) {
        await measureSlowLink(context, table, subject)
        await measureCrowd(context, table, subject)
        await measureChange(context, table, subject, seeds[0]?.path ?? '')
      }
    } finally {
      await subject.close()
    }
  },
}

async function measureSlowLink(
  { machine }: Context,
  table: Table,
  subject: BagfsSubject,
): Promise<void> {
  const link = await SlowLink.to(subject.url, LINK_BYTES_PER_S)
  try {
    const mount = await subject.mount({ url: link.url })
    try {
      await machine.quiet()
      link.receivedBytes = 0
      const { ms } = await timed(() => readFile(join(mount.path, 'huge/d000/f050.txt')))
      const fetched = link.receivedBytes / MB
      table.note(row('1 GB over 20 MB/s, first small file: time', 's'), subject.name, ms / 1e3)
      table.note(row('1 GB over 20 MB/s, first small file: fetched', 'MB'), subject.name, fetched)
    } finally {
      await mount.leave()
    }
  } finally {
    await link.close()
  }
}

async function measureCrowd(
  { machine }: Context,
  table: Table,
  subject: BagfsSubject,
): Promise<void> {
  const mount = await mountWithCached(subject, 'crowd')
  try {
    await machine.quiet()
    const { ms } = await run('ls', [join(mount.path, 'crowd')])
    table.note(row('100,000 entries, zip in the cache: first `ls`', 'ms'), subject.name, ms)
    const { mostMb } = memoryOf(mount.pid)
    table.note(row('100,000 entries: memory, most', 'MB'), subject.name, mostMb)
  } finally {
    await mount.leave()
  }
}

async function measureChange(
  { machine }: Context,
  table: Table,
  subject: BagfsSubject,
  zip: string,
): Promise<void> {
  const { service } = subject
  await machine.quiet()
  const length = statSync(zip).size
  const alone = await timed(() =>
    service.uploadFolder({ path: zip, length, name: 'alone', description: '' }),
  )
  table.note(row('500 MB folder: upload of its zip alone', 's'), subject.name, alone.ms / 1e3)
  await removeNamed(subject, 'alone')
  const mount = await mountWithCached(subject, 'changed')
  try {
    await run('ls', [join(mount.path, 'changed')])
    await machine.quiet()
    const before = await bagsNamed(subject, 'changed')
    const change = await timed(async () => {
      await writeFile(join(mount.path, 'changed/small.txt'), 'y'.repeat(1024))
      while ((await bagsNamed(subject, 'changed')).every((bag) => before.includes(bag))) {
        await sleep(10)
      }
    })
    table.note(row('500 MB folder: 1 KB changed until stored', 's'), subject.name, change.ms / 1e3)
    table.note(row('the same : the upload alone', 'x'), subject.name, change.ms / alone.ms)
  } finally {
    await mount.leave()
  }
  const [bagId] = await bagsNamed(subject, 'changed')
  if (bagId !== undefined) subject.noteBag('changed', bagId)
}

async function bagsNamed({ service }: BagfsSubject, name: string) {
  const records = await service.listFiles()
  return records
    .filter((each) => each.name.replace(/\.zip$/, '') === name)
    .map((each) => each.bagId)
}

async function removeNamed(subject: BagfsSubject, name: string): Promise<void> {
  for (const bagId of await bagsNamed(subject, name)) await subject.service.deleteBag(bagId)
}
