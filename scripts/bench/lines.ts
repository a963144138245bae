import { join } from 'node:path'
import { BagfsSubject } from './bagfs-subject.ts'
import { makeFile } from './files.ts'
import { run } from './processes.ts'
import { RcloneSubject } from './rclone-subject.ts'
import { readWhole } from './read-whole.ts'
import type { Context, Section } from './sections.ts'
import { SlowLine } from './slow-line.ts'
import type { Table } from './table.ts'

const SIZE = 256 * 2 ** 20
const NAME = 'large.bin'

/** In bytes per second. */
const LINES = [
  { what: 'each connection gets 10 MB/s', bytesPerS: 10_000_000, isOfEach: true },
  { what: 'one connection fills it: 20 MB/s', bytesPerS: 20_000_000, isOfEach: false },
  { what: 'one connection fills it: 100 MB/s', bytesPerS: 100_000_000, isOfEach: false },
] as const

/** Over a long way one connection gets a part of the line; several get more. Over a short one it fills it. */
export const lines: Section = {
  title: 'First read of 256 MiB over lines of several kinds',
  subjects: ['bagfs', 'rclone', 'curl of bagfs'],
  needs: ['curl', 'rclone'],
  async measure({ processes, places, machine, runs }, table) {
    const files = [{ name: NAME, path: await makeFile(places.memory, NAME, SIZE) }]
    const settings = { name: 'bagfs', writeBack: false, options: [] }
    const bagfs = await BagfsSubject.start(processes, places, settings, files)
    const rclone = await RcloneSubject.start(processes, places, files)
    try {
      for (let round = 0; round < runs; round += 1) {
        for (const line of LINES) await measureLine({ bagfs, rclone, machine }, line, table)
      }
    } finally {
      await bagfs.close()
      await rclone.close()
    }
  },
}

async function measureLine(
  {
    bagfs,
    rclone,
    machine,
  }: { bagfs: BagfsSubject; rclone: RcloneSubject } & Pick<Context, 'machine'>,
  { what, bytesPerS, isOfEach }: (typeof LINES)[number],
  table: Table,
): Promise<void> {
  const row = { what, unit: 'MB/s', better: 'higher' } as const
  for (const subject of [bagfs, rclone]) {
    const line = await SlowLine.open(subject.port, bytesPerS, isOfEach)
    const mount = await subject.mount({ url: line.url })
    try {
      await machine.quiet()
      table.note(row, subject.name, (await readWhole(join(mount.path, NAME))).mbPerS)
    } finally {
      await mount.leave()
      await line.close()
    }
  }
  const line = await SlowLine.open(bagfs.port, bytesPerS, isOfEach)
  const args = ['-sS', '--fail', '-o', '/dev/null', ...bagfs.curl(NAME, line.url)]
  const { ms } = await run('curl', args)
  table.note(row, 'curl of bagfs', SIZE / 1e3 / ms)
  await line.close()
}
