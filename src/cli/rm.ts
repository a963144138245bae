import type { Command } from '@commander-js/extra-typings'
import { DriveError, isDriveError } from '../domain/errors.ts'
import type { BagId } from '../domain/ids.ts'
import type { BagRecord } from '../domain/record.ts'
import type { StorageService } from '../service/storage-service.ts'
import { profileOption, tokenFileOption, urlOption, withAccount } from './account.ts'
import { chooseBags } from './choose-bags.ts'
import type { CommandContext } from './context.ts'

export function addRm(program: Command, context: CommandContext): void {
  program
    .command('rm')
    .description('delete bags from the account')
    .argument('<bags...>', 'bag ids or names')
    .option('--all', 'delete all bags of a name, when there are several')
    .addOption(urlOption())
    .addOption(tokenFileOption())
    .addOption(profileOption())
    .action((bags, flags) =>
      withAccount(context, flags, async ({ service, signal }) => {
        const listing = await service.listFiles({ signal })
        const all = flags.all === true
        // Everything is chosen before anything is deleted: a typing error deletes nothing.
        const doomed = bags.flatMap((text) => chooseDoomed(listing, text, all))
        for (const bagId of new Set(doomed)) {
          await deleteBag(service, bagId, signal)
          context.output.line(bagId)
        }
      }),
    )
}

/** A delete is sent again where its answer was lost: then also what comes of the last try says so. */
async function deleteBag(
  service: StorageService,
  bagId: BagId,
  signal: AbortSignal,
): Promise<void> {
  const seen = { isAnswerLost: false }
  const onAnswerLost = (): void => {
    seen.isAnswerLost = true
  }
  try {
    await service.deleteBag(bagId, { signal, onAnswerLost })
  } catch (error) {
    if (!seen.isAnswerLost || !isDriveError(error)) throw error
    throw new DriveError(error.code, error.message, { ...error.facts, answerLost: true })
  }
}

function chooseDoomed(listing: readonly BagRecord[], text: string, all: boolean): readonly BagId[] {
  const chosen = chooseBags(listing, text)
  if (chosen.by === 'id') return [chosen.bagId]
  if (chosen.records.length > 1 && !all) throw severalOfOneName(text, chosen.records)
  return chosen.records.map(({ bagId }) => bagId)
}

function severalOfOneName(name: string, records: readonly BagRecord[]): DriveError {
  const ids = records.map(({ bagId }) => `  ${bagId}`).join('\n')
  return new DriveError('usage', `There are ${records.length} bags named "${name}":\n${ids}`, {
    hint: 'Give the id of the one to delete, or --all.',
  })
}
