import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeFile, makeFiles } from './files.ts'
import { memoryOf } from './machine.ts'
import { run } from './processes.ts'
import { inTurns, type Context, type Section } from './sections.ts'
import type { Mount, SeedFile, Subject } from './subject.ts'
import type { Table } from './table.ts'

const LARGE_SIZE = 256 * 2 ** 20
const SMALL_SIZE = 16 * 2 ** 10
const SMALL_COUNT = 200
const MANY_COUNT = 6_400
const RENAMES = 10
const POLL_MS = 20
const ARRIVAL_LIMIT_MS = 600_000

const rows = {
  largeReturns: { what: 'cp of 256 MiB: returns', unit: 's', better: 'lower' },
  largeThere: { what: 'cp of 256 MiB: on the server', unit: 's', better: 'lower' },
  smallReturn: { what: 'cp of 200 x 16 KiB: returns', unit: 's', better: 'lower' },
  smallThere: { what: 'cp of 200 x 16 KiB: on the server', unit: 's', better: 'lower' },
  manyReturn: { what: 'cp of 6,400 x 16 KiB: returns', unit: 's', better: 'lower' },
  manyThere: { what: 'cp of 6,400 x 16 KiB: on the server', unit: 's', better: 'lower' },
  rename: { what: 'mv of a stored 16 KiB file: returns', unit: 'ms', better: 'lower' },
  remove: { what: 'rm of 200 stored files: returns', unit: 's', better: 'lower' },
  most: { what: 'memory of the mount, most', unit: 'MB', better: 'lower' },
} as const

export const writing: Section = {
  title: 'Writing',
  subjects: ['bagfs', 'bagfs --write-back', 'rclone', 'bare bridge'],
  needs: ['rclone'],
  async measure(context, table) {
    const { places } = context
    const largeName = 'large.bin'
    const path = await makeFile(places.memory, largeName, LARGE_SIZE)
    const small = await makeFiles(join(places.memory, 'small'), SMALL_COUNT, SMALL_SIZE)
    const kinds = ['bagfs', 'bagfs --write-back', 'rclone', 'bare bridge'] as const
    await inTurns(context, kinds, [], async (subject) => {
      const mount = await subject.mount()
      try {
        const measured = { context, table, subject, mount }
        await copyIn(measured, [{ name: largeName, path }], [rows.largeReturns, rows.largeThere])
        table.note(rows.most, subject.name, memoryOf(mount.pid).mostMb)
        await copyIn(measured, small, [rows.smallReturn, rows.smallThere])
        await renameSome(measured, small)
        await removeAll(measured)
      } finally {
        await mount.leave()
      }
    })
  },
}

/** A section of its own: its uploads take minutes. */
export const writingMany: Section = {
  title: 'Writing thousands of small files',
  subjects: ['bagfs --write-back', 'rclone'],
  needs: ['rclone'],
  async measure(context, table) {
    const small = await makeFiles(join(context.places.memory, 'many'), MANY_COUNT, SMALL_SIZE)
    await inTurns(context, ['bagfs --write-back', 'rclone'], [], async (subject) => {
      const mount = await subject.mount()
      try {
        const measured = { context, table, subject, mount }
        await copyIn(measured, small, [rows.manyReturn, rows.manyThere])
      } finally {
        await mount.leave()
      }
    })
  },
}

interface Measured {
  readonly context: Context
  readonly table: Table
  readonly subject: Subject
  readonly mount: Mount
}

async function copyIn(
  { context, table, subject, mount }: Measured,
  files: readonly SeedFile[],
  [returns, isThere]: readonly [Return, Arrival],
): Promise<void> {
  await context.machine.quiet()
  const startedMs = performance.now()
  const { ms } = await run('cp', [...files.map(({ path }) => path), mount.path])
  table.note(returns, subject.name, ms / 1e3)
  if (subject.has === undefined) return
  await arrival(subject, files)
  table.note(isThere, subject.name, (performance.now() - startedMs) / 1e3)
}

type Return = typeof rows.largeReturns | typeof rows.smallReturn | typeof rows.manyReturn
type Arrival = typeof rows.largeThere | typeof rows.smallThere | typeof rows.manyThere

async function arrival(subject: Subject, files: readonly SeedFile[]): Promise<void> {
  const wanted = files.map(({ name, path }) => ({ name, size: statSync(path).size }))
  const deadline = Date.now() + ARRIVAL_LIMIT_MS
  while ((await subject.has?.(wanted)) === false) {
    if (Date.now() > deadline)
      throw new Error(`Not all files reached the server of ${subject.name}.`)
    await sleep(POLL_MS)
  }
}

async function renameSome(
  { context, table, subject, mount }: Measured,
  files: readonly SeedFile[],
): Promise<void> {
  await context.machine.quiet()
  for (const { name } of files.slice(0, RENAMES)) {
    const from = join(mount.path, name)
    const { ms } = await run('mv', [from, `${from}.moved`])
    table.note(rows.rename, subject.name, ms)
  }
}

async function removeAll({ context, table, subject, mount }: Measured): Promise<void> {
  await context.machine.quiet()
  const { ms } = await run('sh', ['-c', 'rm -- "$0"/file*', mount.path])
  table.note(rows.remove, subject.name, ms / 1e3)
  await run('rm', ['--', join(mount.path, 'large.bin')])
}
