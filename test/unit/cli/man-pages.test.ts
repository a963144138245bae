import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MOUNT_OPTION_KEYS, MOUNT_OPTIONS, optionVariable } from '../../../src/config/options.ts'
import { BuiltProgram } from './built-program.ts'

const run = promisify(execFile)

let program: BuiltProgram
let pages = ''

beforeAll(async () => {
  program = await BuiltProgram.build()
  pages = join(program.directory, 'man')
  expect(await program.run(['man-pages', pages])).toMatchObject({ exitCode: 0 })
}, 120_000)

afterAll(() => program.remove())

/** The page as a person reads it, in one line. */
async function read(name: string): Promise<string> {
  const args = ['-man', '-Tutf8', '-P-cbou', '-ww', join(pages, name)]
  const { stdout, stderr } = await run('groff', args)
  expect(stderr).toBe('')
  return stdout.replace(/[‐−]/g, '-').replace(/\s+/g, ' ')
}

test('each command has a manual page, which troff takes without a warning', async () => {
  const { stdout: help } = await program.run(['--help'])
  const commands = Array.from(help.matchAll(/^ {2}([a-z]+) /gm), ([, name]) => name ?? '')
  expect(commands).toContain('mount')
  for (const name of commands.filter((each) => each !== 'help' && each !== 'bagfs')) {
    expect(await read(`bagfs-${name}.1`)).toContain(`bagfs ${name}`)
  }
  expect((await readdir(pages)).length).toBe(new Set([...commands, 'bagfs', 'help']).size)
  expect(await read('bagfs.1')).toContain('7 in use')
})

test('that of mount has every option of the table, with its variable', async () => {
  const page = await read('bagfs-mount.1')
  for (const key of MOUNT_OPTION_KEYS) {
    const { flags, help } = MOUNT_OPTIONS[key]
    expect(page).toContain(`${flags} ${help}`)
    expect(page).toContain(`${optionVariable(key)} ${help}`)
  }
})

test('the helper of mount(8) has one, too, with the options that the fstab takes', async () => {
  const page = await read('mount.bagfs.8')
  expect(page).toContain('mount -t bagfs [-o OPTIONS] PROFILE DIRECTORY')
  for (const key of MOUNT_OPTION_KEYS) {
    const written = MOUNT_OPTIONS[key].flags.replace('--', '').replace(' ', '=')
    const isThere = key !== 'foreground' && key !== 'background'
    expect(page.includes(`${written} ${MOUNT_OPTIONS[key].help}`)).toBe(isThere)
  }
})
