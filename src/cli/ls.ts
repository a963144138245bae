import type { Command } from '@commander-js/extra-typings'
import { formatSize } from '../config/sizes.ts'
import { localStamp } from '../domain/local-stamp.ts'
import type { BagRecord } from '../domain/record.ts'
import { profileOption, tokenFileOption, urlOption, withAccount } from './account.ts'
import type { CommandContext } from './context.ts'

export function addLs(program: Command, context: CommandContext): void {
  program
    .command('ls')
    .description('list the bags of the account, the newest last')
    .option('--json', 'as JSON, with sizes in bytes and times in milliseconds')
    .addOption(urlOption())
    .addOption(tokenFileOption())
    .addOption(profileOption())
    .action((flags) =>
      withAccount(context, flags, async ({ service, signal }) => {
        const listing = await service.listFiles({ signal })
        const records = [...listing].sort((a, b) => a.uploadedAtMs - b.uploadedAtMs)
        if (flags.json === true) context.output.json(records.map(toJson))
        else for (const line of toTable(records)) context.output.line(line)
      }),
    )
}

function toJson(record: BagRecord): Readonly<Record<string, unknown>> {
  return {
    name: record.name,
    size: record.size ?? null,
    uploaded_at_ms: record.uploadedAtMs === 0 ? null : record.uploadedAtMs,
    description: record.description,
    bag_id: record.bagId,
  }
}

/** Names come last: how wide a terminal draws them is not known. */
function toTable(records: readonly BagRecord[]): readonly string[] {
  const rows = records.map(({ name, size, uploadedAtMs, bagId }) => ({
    size: size === undefined ? '?' : formatSize(size),
    date: toLocalDate(uploadedAtMs),
    bagId,
    name,
  }))
  const idWidth = rows.reduce((widest, { bagId }) => Math.max(widest, bagId.length), 0)
  return rows.map(
    ({ size, date, bagId, name }) =>
      `${size.padStart(7)}  ${date.padEnd(16)}  ${bagId.padEnd(idWidth)}  ${name}`,
  )
}

/** `2026-11-20 19:37` */
function toLocalDate(ms: number): string {
  return ms === 0 || Number.isNaN(ms) ? '?' : localStamp(ms).slice(0, '2026-11-20 19:37'.length)
}
