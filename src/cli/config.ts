import type { Command } from '@commander-js/extra-typings'
import {
  MOUNT_OPTION_KEYS,
  MOUNT_OPTIONS,
  optionName,
  type MountOption,
  type MountOptionKey,
} from '../config/options.ts'
import type { Environment } from '../config/env.ts'
import { findDefaultPaths } from '../config/paths.ts'
import { chooseOptions, type ChosenOptions, type OptionOrigin } from '../profiles/choose-options.ts'
import { describeTokenPlace } from '../profiles/tokens.ts'
import type { CommandContext } from './context.ts'

interface OptionRow {
  readonly name: string
  /** As it was written; null where there is none. */
  readonly value: string | null
  readonly from: string
}

/** Adds `bagfs config`. */
export function addConfig(program: Command, { output, environment }: CommandContext): void {
  program
    .command('config')
    .description('show the value of each option of a mount, and where it comes from')
    .argument('[profile]', 'as for a drive of this account (default: the default one)')
    .option('--json', 'as JSON')
    .action(async (profile, { json = false }) => {
      const chosen = await chooseOptions({ environment, flags: {}, profile })
      const all = listOptions(chosen, environment)
      const name = chosen.profile?.name
      if (json) {
        const file = chosen.profiles.path
        output.json({ file, profile: name ?? null, options: all })
        return
      }
      output.note(`Profile: ${name ?? 'none'}. File: ${chosen.profiles.path}`)
      for (const line of toTable(all)) output.line(line)
    })
}

/** A table of all options and where the token is. */
export function describeOptions(
  chosen: ChosenOptions,
  environment: Environment,
): readonly string[] {
  return toTable(listOptions(chosen, environment))
}

function listOptions(chosen: ChosenOptions, environment: Environment): readonly OptionRow[] {
  return [...MOUNT_OPTION_KEYS.map((key) => rowOf(chosen, environment, key)), tokenRow(chosen)]
}

function rowOf(chosen: ChosenOptions, environment: Environment, key: MountOptionKey): OptionRow {
  const name = optionName(key)
  const origin = chosen.origins[key]
  if (origin === undefined) return { name, value: defaultOf(key), from: 'default' }
  const value =
    origin.from === 'environment'
      ? environment.options[key]
      : chosen.profile?.options.get(key)?.text
  return { name, value: value ?? null, from: describeOrigin(origin) }
}

/** Which account has no default: there is no account that all share. */
function defaultOf(key: MountOptionKey): string | null {
  const option: MountOption = MOUNT_OPTIONS[key]
  if (key === 'stateDir') return findDefaultPaths().stateDir
  if (key === 'url' || key === 'local' || key === 'tokenFile') return null
  return option.default ?? option.defaultWords ?? null
}

function describeOrigin(origin: OptionOrigin): string {
  if (origin.from === 'environment') return origin.variable
  if (origin.from === 'flag') return 'command line'
  return `profile ${origin.profile}, line ${origin.line}`
}

/** Where the token is, and never the token. */
function tokenRow({ token }: ChosenOptions): OptionRow {
  if (token === undefined) return { name: 'token', value: null, from: 'default' }
  if (token.from === 'environment') return { name: 'token', value: 'set', from: token.variable }
  return { name: 'token', value: 'kept', from: describeTokenPlace(token.place) }
}

function toTable(rows: readonly OptionRow[]): readonly string[] {
  const width = (texts: readonly string[]): number => Math.max(...texts.map(({ length }) => length))
  const names = width(rows.map(({ name }) => name))
  const values = width(rows.map(({ value }) => value ?? '-'))
  return rows.map(
    ({ name, value, from }) => `${name.padEnd(names)}  ${(value ?? '-').padEnd(values)}  ${from}`,
  )
}
