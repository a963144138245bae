import type { Command, Option } from '@commander-js/extra-typings'
import { MOUNT_OPTIONS, type MountOption } from '../config/options.ts'

/** What can stand for a value: some words, something on this machine, or anything. */
export type ValueKind =
  | { readonly is: 'words'; readonly words: readonly string[] }
  | { readonly is: 'file' | 'directory' | 'profile' | 'target' | 'free' }

export interface OptionEntry {
  /** With its dashes. */
  readonly long: string
  readonly short?: string
  readonly help: string
  /** As in `--local [dir]`. */
  readonly flags: string
  readonly takes: 'nothing' | 'maybe' | 'always'
  readonly value: ValueKind
}

export interface ArgumentEntry {
  readonly name: string
  readonly help: string
  readonly value: ValueKind
}

export interface CommandEntry {
  readonly name: string
  readonly help: string
  /** What follows the name of the program. */
  readonly usage: string
  readonly options: readonly OptionEntry[]
  readonly arguments: readonly ArgumentEntry[]
}

/** What commander knows of a command line, as far as a person may see it: for completion and manual pages. */
export function readCommands(program: Command): readonly CommandEntry[] {
  const help = program.createHelp()
  return help
    .visibleCommands(program)
    .filter((command) => command.name() !== 'help')
    .map((command) => ({
      name: command.name(),
      help: command.description(),
      usage: `${command.name()} ${command.usage()}`,
      options: help.visibleOptions(command).map(toOption),
      arguments: command.registeredArguments.map((argument) => ({
        name: argument.name(),
        help: argument.description,
        value: kindOf(command.name(), argument.name(), argument.argChoices),
      })),
    }))
}

function toOption(option: Option): OptionEntry {
  const known: MountOption | undefined = Object.values(MOUNT_OPTIONS).find(
    ({ flags }) => flags === option.flags,
  )
  const placeholder = /[<[](\w+)/.exec(option.flags)?.[1] ?? ''
  // The same as the profile's name in another place.
  const name = ['--profile', '--default'].includes(option.long ?? '') ? 'profile' : placeholder
  return {
    long: option.long ?? '',
    ...(option.short === undefined ? {} : { short: option.short }),
    help: option.description,
    flags: option.flags,
    takes: option.required ? 'always' : option.optional ? 'maybe' : 'nothing',
    value: kindOf('', name, option.argChoices ?? known?.words),
  }
}

const KINDS: Readonly<Record<string, Exclude<ValueKind['is'], 'words'>>> = {
  file: 'file',
  path: 'file',
  paths: 'file',
  dest: 'file',
  dir: 'directory',
  mountpoint: 'target',
  profile: 'profile',
}

/** By the name that the person reads in the help. */
function kindOf(command: string, name: string, words: readonly string[] | undefined): ValueKind {
  if (words !== undefined) return { is: 'words', words }
  if (command === 'mount') return { is: 'target' }
  return { is: KINDS[name] ?? 'free' }
}
