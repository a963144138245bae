import { readFileSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
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

const KINDS = ['bagfs', 'bagfs over fuse-native', 'rclone', 'bare bridge', 'plain disk'] as const
/** Commands that look at each entry; `stat` asks for them by name. */
const LOOKS = ['ls -l .', 'find . -size +1', 'stat -c %s *']

/** Looks at all entries of a drive with real bags. */
export const listing: Section = {
  title: 'Listing',
  subjects: KINDS,
  needs: ['rclone'],
  async measure(context, table) {
    const { machine, places } = context
    for (const count of [1_000, 10_000]) {
      const files = await makeFiles(join(places.memory, `list-${count}`), count, FILE_SIZE)
      const words = count.toLocaleString('en')
      await inTurns(context, KINDS, files, async (subject) => {
        const mount = await subject.mount()
        try {
          for (const look of LOOKS) {
            for (const time of ['first', 'again']) {
              await machine.quiet()
              const what = `${words} entries, \`${look}\`, ${time}`
              const row = { what, unit: 'ms', better: 'lower' } as const
              const ms = await timeOf('sh', '-c', `cd "$0" && ${look} > /dev/null`, mount.path)
              table.note(row, subject.name, ms)
            }
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

const MILLION = 1_000_000
/** How long a changed listing of that length may take to be shown. */
const SHOWN_WITHIN_MS = 60_000

/** An account of a million records, and what another program notices while its listing changes. */
export const huge: Section = {
  title: 'A listing of 1,000,000 records',
  subjects: ['bagfs'],
  needs: [],
  async measure({ machine, places, processes, runs }, table) {
    const pausesTo = join(places.memory, 'pauses')
    const settings = { name: 'bagfs', writeBack: false, extraRecords: MILLION, pausesTo }
    const subject = await BagfsSubject.start(processes, places, settings, [])
    const note = (what: string, unit: string, figure: number): void => {
      table.note({ what, unit, better: 'lower' }, subject.name, figure)
    }
    try {
      for (let round = 0; round < runs; round += 1) {
        const files = await makeFiles(join(places.memory, `change-${round}`), 1, FILE_SIZE)
        await machine.quiet()
        const startedMs = performance.now()
        const mount = await subject.mount()
        try {
          note('from the command to the mount', 's', (performance.now() - startedMs) / 1000)
          note('memory, most, at the mount', 'MB', memoryOf(mount.pid).mostMb)
          process.kill(mount.pid, 'SIGUSR2')
          for (const file of files) await subject.add({ ...file, name: `change ${round}` })
          const slowest = await statUntil(join(mount.path, `change ${round}`))
          await sleep(500)
          note('slowest of many `stat` until a change elsewhere shows', 'ms', slowest)
          note('longest pause meanwhile', 'ms', Number(readFileSync(pausesTo, 'utf8')))
          note('memory, most', 'MB', memoryOf(mount.pid).mostMb)
        } finally {
          await mount.leave()
        }
      }
    } finally {
      await subject.close()
    }
  },
}

/** Asks for a file again and again until it is there; answers the milliseconds of the slowest time. */
async function statUntil(path: string): Promise<number> {
  const deadline = performance.now() + SHOWN_WITHIN_MS
  for (let slowest = 0; ;) {
    const startedMs = performance.now()
    const isThere = await stat(path).then(
      () => true,
      () => false,
    )
    slowest = Math.max(slowest, performance.now() - startedMs)
    if (isThere) return slowest
    if (startedMs > deadline) throw new Error(`${path} does not show.`)
    await sleep(5)
  }
}
