import type { Command } from '@commander-js/extra-typings'
import { formatSize } from '../config/sizes.ts'
import { askToWarmUp } from '../control/client.ts'
import type { CommandContext } from './context.ts'
import { findDriveOf } from './drive-places.ts'
import { listenForStop } from './signals.ts'

/** Adds `bagfs warmup`. */
export function addWarmUp(program: Command, { output }: CommandContext): void {
  program
    .command('warmup')
    .description('fetch a file, a folder or all of an account, to read it without the network')
    .argument('<path>', 'a drive, or a file or folder in one, also as PROFILE:PATH')
    .action(async (path) => {
      const { drive, names } = await findDriveOf(path)
      const signals = listenForStop()
      const onTerminal = output.terminal !== undefined
      let shown = 0
      try {
        const { bags, bytes, failed } = await askToWarmUp(drive.socketPath, names, {
          signal: signals.stop,
          onProgress: (progress) => {
            const { bags: done, ofBags, bytes: had, ofBytes } = progress
            const line = `${done} of ${ofBags} bags, ${formatSize(had)} of ${formatSize(ofBytes)}`
            if (onTerminal) output.raw('stderr', `\r\u001b[K${line}`)
            else if (done > shown) output.note(line)
            shown = done
          },
        })
        if (onTerminal) output.raw('stderr', '\r\u001b[K')
        for (const { name, reason } of failed) output.note(`bagfs: ${name}: ${reason}`)
        const count = bags === 1 ? '1 bag' : `${bags} bags`
        output.line(`${count}, ${formatSize(bytes)}: can be read without the network.`)
        if (failed.length > 0) process.exitCode = 1
      } catch (error) {
        if (onTerminal) output.raw('stderr', '\r\u001b[K')
        throw error
      } finally {
        signals.ignore()
      }
    })
}
