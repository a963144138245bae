import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Command } from '@commander-js/extra-typings'
import {
  MOUNT_OPTION_KEYS,
  MOUNT_OPTIONS,
  optionName,
  optionVariable,
  type MountOption,
} from '../config/options.ts'
import { fromFileSystem } from '../domain/errors.ts'
import { readCommands, type CommandEntry } from './command-tree.ts'
import { EXIT_CODES_IN_WORDS } from './errors.ts'
import { DEFAULT_SOURCE, NOT_HERE } from './mount-helper.ts'
import { readVersion } from './version.ts'

/** Adds the hidden command of the build that writes the manual pages; the program that it gets has all commands. */
export function addManPages(program: Command): void {
  program
    .command('man-pages', { hidden: true })
    .argument('<dir>')
    .action(async (dir) => {
      const commands = readCommands(program)
      const pages = [
        ['bagfs.1', pageOfAll(program, commands)] as const,
        ...commands.map((command) => [`bagfs-${command.name}.1`, pageOf(command)] as const),
        ['mount.bagfs.8', pageOfMountHelper()] as const,
      ]
      try {
        await mkdir(dir, { recursive: true })
        for (const [name, text] of pages) await writeFile(join(dir, name), text)
      } catch (error) {
        throw fromFileSystem(error, `Writing manual pages to ${dir}`)
      }
    })
}

function pageOfAll(program: Command, commands: readonly CommandEntry[]): string {
  return [
    head('bagfs', program.description()),
    section('SYNOPSIS', bold('bagfs') + plain(' command [options]')),
    section('COMMANDS', ...commands.map(({ usage, help }) => item(bold(usage), plain(help)))),
    section('EXIT STATUS', plain(EXIT_CODES_IN_WORDS.replaceAll('\n', ' '))),
    FILES,
    section('SEE ALSO', commands.map(({ name }) => `${bold(`bagfs-${name}`)}(1)`).join(', ')),
  ].join('')
}

function pageOf(command: CommandEntry): string {
  const { name, help, usage, options, arguments: all } = command
  return [
    head(`bagfs-${name}`, help),
    section('SYNOPSIS', bold('bagfs') + plain(` ${usage}`)),
    all.length === 0
      ? ''
      : section('ARGUMENTS', ...all.map((each) => item(bold(each.name), plain(each.help)))),
    section('OPTIONS', ...options.map((each) => item(bold(each.flags), plain(each.help)))),
    name === 'mount' ? ENVIRONMENT + FILES : '',
    section('SEE ALSO', `${bold('bagfs')}(1)`),
  ].join('')
}

/** What `fromMountHelper` takes. */
function pageOfMountHelper(): string {
  const options = MOUNT_OPTION_KEYS.filter((key) => !NOT_HERE.includes(key)).map((key) => {
    const { flags, kind, help }: MountOption = MOUNT_OPTIONS[key]
    const written = flags.replace(/^--/, '').replace(' ', '=')
    const off = kind === 'flag' ? ` (no${optionName(key)} turns it off)` : ''
    return item(bold(written), plain(`${help}${off}`))
  })
  return [
    head('mount.bagfs', 'mount an account of a file storage service by mount(8) and fstab(5)', 8),
    section(
      'SYNOPSIS',
      `${bold('mount -t bagfs')} ${plain('[-o OPTIONS] PROFILE DIRECTORY')}`,
      '.PP',
      plain('PROFILE DIRECTORY bagfs OPTIONS 0 0'),
    ),
    section(
      'DESCRIPTION',
      plain(
        `mount(8) calls it for file systems of the type bagfs. PROFILE is an account that bagfs login has stored for the user who mounts; ${DEFAULT_SOURCE} is the default one. The drive runs in the background. umount(8) returns at once, and the drive sends what waits after it; bagfs umount waits for that.`,
      ),
    ),
    section(
      'OPTIONS',
      plain(
        'Those of bagfs mount without dashes; ro and allow_other as with other file systems. What is for mount(8) and systemd, such as _netdev, user and x-systemd.automount, is left to them.',
      ),
      ...options,
    ),
    section('SEE ALSO', `${bold('bagfs-mount')}(1), ${bold('mount')}(8), ${bold('fstab')}(5)`),
  ].join('')
}

const ENVIRONMENT = section(
  'ENVIRONMENT',
  plain(
    'A flag goes before the environment, that before the profile, and that before the default. A flag without a value is true or false here.',
  ),
  ...MOUNT_OPTION_KEYS.map((key) =>
    item(bold(optionVariable(key)), plain(MOUNT_OPTIONS[key].help)),
  ),
  item(bold('BAGFS_TOKEN'), plain('the API token')),
  item(bold('BAGFS_PROFILE'), plain('the profile that is used where none is named')),
)

const FILES = section(
  'FILES',
  item(
    bold('~/.config/bagfs/config.yaml'),
    plain(
      `Accounts by name, each with the options of its drives: ${MOUNT_OPTION_KEYS.map(optionName).join(', ')}. bagfs login writes it, and bagfs config shows what follows from it.`,
    ),
  ),
  item(bold('~/.local/state/bagfs'), plain('What waits to be sent, the cache and the logs.')),
)

function head(name: string, help: string, chapter = 1): string {
  return `.TH ${name.toUpperCase()} ${chapter} "" "bagfs ${readVersion()}" "bagfs"\n.SH NAME\n${plain(name)} \\- ${plain(help)}\n`
}

function section(title: string, ...parts: readonly string[]): string {
  return `.SH ${title}\n${parts.map((part) => `${part}\n`).join('')}`
}

function item(term: string, text: string): string {
  return `.TP\n${term}\n${text}`
}

function bold(text: string): string {
  return `\\fB${plain(text)}\\fR`
}

/** Text in which troff sees no requests of its own. */
function plain(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^(?=[.'])/gm, '\\&')
}
