import type { Command } from '@commander-js/extra-typings'
import { formatSize } from '../config/sizes.ts'
import { askToWarmUp } from '../control/client.ts'
import type { CommandContext } from './context.ts'
import { findDriveOf } from './drive-places.ts'
import { withBar } from './progress.ts'
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
      let shown = 0
      try {
        const { bags, bytes, failed } = await withBar(output, (draw) =>
          askToWarmUp(drive.socketPath, names, {
            signal: signals.stop,
            onProgress: (progress) => {
              const { bags: done, ofBags, bytes: had, ofBytes } = progress
              const label = `${done} of ${countBags(ofBags)}`
              draw({ label, totalBytes: ofBytes }, had)
              const isOnTerminal = output.terminal !== undefined
              if (!isOnTerminal && done > shown) {
                output.note(`${label}, ${formatSize(had)} of ${formatSize(ofBytes)}`)
              }
              shown = done
            },
          }),
        )
        for (const { name, reason } of failed) output.note(`bagfs: ${name}: ${reason}`)
        output.line(`${countBags(bags)}, ${formatSize(bytes)}: can be read without the network.`)
        if (failed.length > 0) process.exitCode = 1
      } finally {
        signals.ignore()
      }
    })
}

function countBags(bags: number): string {
  return bags === 1 ? '1 bag' : `${bags} bags`
}
