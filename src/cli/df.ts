import type { Command } from '@commander-js/extra-typings'
import { formatSize } from '../config/sizes.ts'
import { profileOption, tokenFileOption, urlOption, withAccount } from './account.ts'
import { usedShare } from '../mount/space-words.ts'
import type { CommandContext } from './context.ts'

export function addDf(program: Command, context: CommandContext): void {
  program
    .command('df')
    .description('show how much of the account is used')
    .option('--json', 'as JSON, in bytes')
    .addOption(urlOption())
    .addOption(tokenFileOption())
    .addOption(profileOption())
    .action((flags) =>
      withAccount(context, flags, async ({ service, signal }) => {
        const { uid, capacity, spaceLeft } = await service.getAccount({ signal })
        const used = Math.max(capacity - spaceLeft, 0)
        if (flags.json === true) {
          context.output.json({ uid, capacity, used, space_left: spaceLeft })
          return
        }
        context.output.line(`account   ${uid}`)
        context.output.line(`capacity  ${formatSize(capacity)}`)
        context.output.line(`used      ${formatSize(used)} (${usedShare(used, capacity)})`)
        context.output.line(`left      ${formatSize(spaceLeft)}`)
      }),
    )
}
