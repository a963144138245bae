import { join } from 'node:path'
import { BagfsSubject } from './bagfs-subject.ts'
import { makeFiles } from './files.ts'
import { memoryOf } from './machine.ts'
import { run } from './processes.ts'
import { inTurns, type Section } from './sections.ts'

const FILE_SIZE = 64
const MANY = 100_000

async function timeOf(command: string, ...args: string[]): Promise<number> {
  const { ms } = await run(command, args)
  return ms
}

/** `ls -l` of a drive with real bags. */
export const listing: Section = {
  title: 'Listing with `ls -l`',
  subjects: ['bagfs', 'rclone', 'bare bridge'],
  needs: ['rclone'],
  async measure(context, table) {
    const { machine, places } = context
    for (const count of [1_000, 10_000]) {
      const files = await makeFiles(join(places.memory, `list-${count}`), count, FILE_SIZE)
      const words = count.toLocaleString('en')
      await inTurns(context, ['bagfs', 'rclone', 'bare bridge'], files, async (subject) => {
        const mount = await subject.mount()
        try {
          for (const time of ['first', 'again']) {
            await machine.quiet()
            const row = { what: `${words} entries, ${time}`, unit: 'ms', better: 'lower' } as const
            table.note(row, subject.name, await timeOf('ls', '-l', mount.path))
          }
        } finally {
          await mount.leave()
        }
      })
    }
  },
}

/** An account of 100,000 records. */
export const large: Section = {
  title: 'A listing of 100,000 records',
  subjects: ['bagfs'],
  needs: [],
  async measure({ machine, places, processes, runs }, table) {
    const settings = { name: 'bagfs', writeBack: false, extraRecords: MANY }
    const subject = await BagfsSubject.start(processes, places, settings, [])
    const note = (what: string, unit: string, figure: number): void => {
      table.note({ what, unit, better: 'lower' }, subject.name, figure)
    }
    try {
      for (let round = 0; round < runs; round += 1) {
        await machine.quiet()
        const startedMs = performance.now()
        const mount = await subject.mount()
        try {
          note('from the command to the mount', 'ms', performance.now() - startedMs)
          note('first `ls`', 'ms', await timeOf('ls', mount.path))
          note('`ls` again', 'ms', await timeOf('ls', mount.path))
          note('memory afterwards', 'MB', memoryOf(mount.pid).nowMb)
          note('memory, most', 'MB', memoryOf(mount.pid).mostMb)
          if (round > 0) continue
          note('`ls -l`, once', 'ms', await timeOf('ls', '-l', mount.path))
          note('memory after `ls -l`', 'MB', memoryOf(mount.pid).nowMb)
        } finally {
          await mount.leave()
        }
      }
    } finally {
      await subject.close()
    }
  },
}
