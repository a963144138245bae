import type { Command } from '@commander-js/extra-typings'
import { askToSync } from '../control/client.ts'
import type { ToldItem } from '../control/protocol.ts'
import type { CommandContext } from './context.ts'
import { findDriveOf, findLiveDrives, type LiveDrive } from './drive-places.ts'
import type { Output } from './output.ts'

/** Adds `bagfs sync`. */
export function addSync(program: Command, { output }: CommandContext): void {
  program
    .command('sync')
    .description('send what was written and wait until the service has it')
    .argument('[path]', 'a drive, or a file or folder in one (default: all drives)')
    .action(async (path) => {
      const found = path === undefined ? undefined : await findDriveOf(path)
      const drives = found === undefined ? await findLiveDrives() : [found.drive]
      const left: ToldItem[] = []
      for (const drive of drives) left.push(...(await sync(output, drive, found?.name)))
      for (const { name, state } of left) output.note(`bagfs: ${name}: ${state}`)
      if (left.length > 0) process.exitCode = 1
    })
}

async function sync(
  output: Output,
  drive: LiveDrive,
  name: string | undefined,
): Promise<readonly ToldItem[]> {
  let shown = 0
  const onTerminal = output.terminal !== undefined
  try {
    return await askToSync(drive.socketPath, {
      ...(name === undefined ? {} : { name }),
      onProgress: (waiting) => {
        if (!onTerminal || waiting === shown) return
        shown = waiting
        const changes = waiting === 1 ? '1 change' : `${waiting} changes`
        output.raw('stderr', `\r\u001b[K${changes} to send.`)
      },
    })
  } finally {
    if (onTerminal && shown !== 0) output.raw('stderr', '\r\u001b[K')
  }
}
