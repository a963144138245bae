import { once } from 'node:events'
import { resolve } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import { parseDuration } from '../config/durations.ts'
import { askToTrace } from '../control/client.ts'
import type { TraceEvent, TraceFilter } from '../control/protocol.ts'
import { findMount } from '../disk/find-mount.ts'
import { readProcFile } from '../disk/process-stat.ts'
import { DriveError } from '../domain/errors.ts'
import { operationNames } from '../kernel/operation-names.ts'
import type { CommandContext } from './context.ts'
import { findOneDrive, type LiveDrive } from './drive-places.ts'
import type { Output } from './output.ts'
import { listenForStop } from './signals.ts'
import { describeTraced, tracedToJson } from './trace-line.ts'

interface TraceFlags {
  readonly op?: string
  readonly path?: string
  readonly pid?: string
  readonly slow?: string
}

/** Adds `bagfs trace`. */
export function addTrace(program: Command, { output }: CommandContext): void {
  program
    .command('trace')
    .description('show what programs do in a mounted drive as it happens, until Ctrl-C')
    .argument('[mountpoint]', 'the drive, or its PROFILE (default: the only one)')
    .option('--op <names>', 'only these operations, such as read,write')
    .option('--path <prefix>', 'only what has a path that begins so, such as /docs/')
    .option('--pid <number>', 'only what this process asks for')
    .option('--slow <duration>', 'only what took longer, such as 50ms or 1s')
    .option('--json', 'print JSON, an object a line')
    .action(async (given, { json = false, ...flags }) => {
      const drive = await findOneDrive(given)
      const filter = chooseOperations(drive, flags)
      if (!tellsProcesses(drive)) await refuseOutputIn(drive)
      const signals = listenForStop()
      const shown = output.pipe(
        linesOf(askToTrace(drive.socketPath, filter, signals.stop), {
          output,
          mountpoint: drive.mountpoint,
          inWords: json ? tracedToJson : describeTraced,
        }),
      )
      try {
        // What reads this may take its time with the last lines: that must not hold up Ctrl-C.
        await Promise.race([shown, once(signals.stop, 'abort')])
      } finally {
        signals.ignore()
      }
    })
}

/** Throws `usage` for what this drive cannot tell. */
function chooseOperations(drive: LiveDrive, flags: TraceFlags): TraceFilter {
  const { op, path, pid, slow } = flags
  if (pid !== undefined && !tellsProcesses(drive)) {
    throw new DriveError('usage', 'This drive does not know which process asks.', {
      hint: 'Only --bridge dev-fuse tells it.',
    })
  }
  return {
    operations: op === undefined ? [] : operationsIn(op, drive),
    ...(path === undefined ? {} : { path: pathInDrive(path, drive.mountpoint) }),
    ...(pid === undefined ? {} : { pid: parsePid(pid) }),
    ...(slow === undefined ? {} : { slowMs: parseDuration(slow) }),
    // What it prints may go to a file of this very drive.
    without: process.pid,
  }
}

function tellsProcesses({ status }: LiveDrive): boolean {
  return status.bridge === 'dev-fuse'
}

/** Those that a person calls alike. */
const ALIKE: Readonly<Partial<Record<string, readonly string[]>>> = {
  rename: ['rename', 'rename2'],
  readdir: ['readdir', 'readdirplus'],
}

function operationsIn(typed: string, { status }: LiveDrive): readonly string[] {
  const known = operationNames(status.bridge ?? 'fuse-native')
  const names = typed
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '')
  const unknown = names.find((name) => !known.includes(name))
  if (names.length > 0 && unknown === undefined) {
    return names.flatMap((name) => ALIKE[name] ?? [name])
  }
  throw new DriveError('usage', `"${unknown ?? typed}" is no operation of this drive.`, {
    hint: `Operations are: ${[...known].sort().join(', ')}.`,
  })
}

/** As the drive has it: from its root. A path of this machine that leads into the drive will do as well. */
function pathInDrive(typed: string, mountpoint: string): string {
  const full = typed.endsWith('/') ? `${resolve(typed)}/` : resolve(typed)
  if (full.startsWith(`${mountpoint}/`)) return full.slice(mountpoint.length)
  if (full === mountpoint) return '/'
  return typed.startsWith('/') ? typed : `/${typed}`
}

function parsePid(typed: string): number {
  if (/^[1-9]\d*$/.test(typed)) return Number(typed)
  throw new DriveError('usage', `"${typed}" is not the number of a process.`)
}

const MOUNT_OF_FILE = /^mnt_id:\s+(\d+)$/m

/** Each line would be an operation of the drive, and have a line of its own. */
async function refuseOutputIn({ mountpoint }: LiveDrive): Promise<void> {
  const id = MOUNT_OF_FILE.exec((await readProcFile('self/fdinfo/1')) ?? '')?.[1]
  if (id === undefined || (await findMount(mountpoint))?.id !== Number(id)) return
  throw new DriveError('usage', 'The trace cannot be written to the drive that it is of.', {
    hint: 'Write it to a file that is in no drive.',
  })
}

async function* linesOf(
  events: AsyncIterable<TraceEvent>,
  shown: {
    readonly output: Output
    readonly mountpoint: string
    readonly inWords: typeof describeTraced
  },
): AsyncGenerator<Buffer> {
  const { output, mountpoint, inWords } = shown
  for await (const event of events) {
    if (event.type === 'begun') output.note(`Tracing ${mountpoint}. Ctrl-C ends it.`)
    else if (event.type === 'left') output.note(`The drive at ${mountpoint} has left.`)
    else yield Buffer.from(`${inWords(event)}\n`)
  }
}
