import type { Command } from '@commander-js/extra-typings'
import { DriveError } from '../domain/errors.ts'
import { toBagId } from '../domain/ids.ts'
import { profileOption, tokenFileOption, urlOption, withAccount } from './account.ts'
import type { CommandContext } from './context.ts'

export function addImport(program: Command, context: CommandContext): void {
  program
    .command('import')
    .description('add a bag of the storage network to the account')
    .argument('<id>', 'bag id')
    .addOption(urlOption())
    .addOption(tokenFileOption())
    .addOption(profileOption())
    .action(async (id, flags) => {
      if (id.trim() === '') throw new DriveError('usage', 'A bag id cannot be empty.')
      await withAccount(context, flags, ({ service, signal }) =>
        service.addById(toBagId(id.trim()), { signal }),
      )
      context.output.line(id.trim())
    })
}
