import type { Command } from '@commander-js/extra-typings'
import type { Environment } from '../config/env.ts'
import { changeProfiles, readProfiles } from '../profiles/config-file.ts'
import {
  findDefaultProfile,
  requireProfile,
  tokenPlaceOf,
  type Profile,
  type Profiles,
} from '../profiles/profile.ts'
import { describeTokenPlace } from '../profiles/tokens.ts'
import type { CommandContext } from './context.ts'
import { findState } from './profile-use.ts'

/** Adds `bagfs profiles`. */
export function addProfiles(program: Command, { output, environment }: CommandContext): void {
  program
    .command('profiles')
    .description('list the accounts that are logged in; the default one has a star')
    .option('--default <name>', 'make this one the default')
    .option('--names', 'the names alone, one a line')
    .option('--json', 'as JSON')
    .action(async ({ default: name, names = false, json = false }) => {
      if (name !== undefined) {
        requireProfile(await readProfiles(), name)
        await changeProfiles((config) => {
          config.setDefault(name)
        })
      }
      const profiles = await readProfiles()
      if (names) {
        for (const each of profiles.all) output.line(each.name)
        return
      }
      const rows = await Promise.all(
        profiles.all.map((profile) => toRow(environment, profiles, profile)),
      )
      if (json) output.json(rows)
      else if (rows.length === 0) output.note('No account is logged in: bagfs login')
      else for (const line of toLines(rows)) output.line(line)
    })
}

interface Row {
  readonly name: string
  readonly default: boolean
  readonly service: string
  readonly account: string | null
  readonly token: string | null
}

async function toRow(environment: Environment, profiles: Profiles, profile: Profile): Promise<Row> {
  const { serviceKey } = await findState(environment, profile)
  const place = tokenPlaceOf(profile, profiles.path)
  return {
    name: profile.name,
    default: findDefaultProfile(profiles) === profile,
    service: serviceKey,
    account: profile.account ?? null,
    token: place === undefined ? null : describeTokenPlace(place),
  }
}

function toLines(rows: readonly Row[]): readonly string[] {
  const widest = (field: 'name' | 'service'): number =>
    rows.reduce((width, row) => Math.max(width, row[field].length), 0)
  const [nameWidth, serviceWidth] = [widest('name'), widest('service')]
  return rows.map((row) =>
    [
      row.default ? '*' : ' ',
      row.name.padEnd(nameWidth),
      row.service.padEnd(serviceWidth),
      ` account ${row.account ?? 'not known yet'}`,
    ].join(' '),
  )
}
