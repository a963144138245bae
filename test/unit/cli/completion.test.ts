import { execFile } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { MOUNT_OPTIONS } from '../../../src/config/options.ts'
import { BuiltProgram } from './built-program.ts'

const run = promisify(execFile)
const MOUNT_FLAGS = Object.values(MOUNT_OPTIONS).map(({ flags }) => flags.split(' ')[0] ?? '')

let program: BuiltProgram
let home = ''
let variables: Record<string, string> = {}
/** By shell. */
const scripts = new Map<string, string>()

beforeAll(async () => {
  program = await BuiltProgram.build()
  home = join(program.directory, 'home')
  await mkdir(join(home, 'bagfs'), { recursive: true, mode: 0o700 })
  await mkdir(join(home, 'drive'))
  await mkdir(join(home, 'bin'))
  await writeFile(join(home, 'token.txt'), '')
  await writeFile(
    join(home, 'bagfs/config.yaml'),
    'profiles:\n  work:\n    url: http://a\n  home:\n    local: true\n',
    { mode: 0o600 },
  )
  const main = join(program.directory, 'dist/main.js')
  await writeFile(
    join(home, 'bin/bagfs'),
    `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`,
    {
      mode: 0o755,
    },
  )
  const path = `${join(home, 'bin')}:${process.env['PATH'] ?? ''}`
  variables = { HOME: home, XDG_CONFIG_HOME: home, PATH: path, TERM: 'dumb' }
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { stdout, exitCode } = await program.run(['completion', shell], { variables })
    expect(exitCode).toBe(0)
    scripts.set(shell, join(home, `completion.${shell}`))
    await writeFile(join(home, `completion.${shell}`), stdout)
  }
}, 120_000)

afterAll(() => program.remove())

/** What a shell offers when Tab is pressed at the end of a line. */
const OFFERS: Readonly<Record<string, (line: string) => Promise<readonly string[]>>> = {
  bash: async (line) => {
    const words = line
      .split(/(?<=[:=])|(?=[:=])| /)
      .filter((word, at, all) => word !== '' || at === all.length - 1)
    const script = `compopt() { :; }; source '${scripts.get('bash') ?? ''}'
COMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}
_bagfs; printf '%s\\n' "\${COMPREPLY[@]}"`
    return linesOf((await run('bash', ['-c', script], { cwd: home, env: variables })).stdout)
  },
  fish: async (line) => {
    const script = `source '${scripts.get('fish') ?? ''}'; complete --do-complete '${line}'`
    const { stdout } = await run('fish', ['--no-config', '-c', script], {
      cwd: home,
      env: variables,
    })
    return linesOf(stdout).map((offer) => offer.split('\t')[0] ?? '')
  },
}

function linesOf(text: string): readonly string[] {
  return text.split('\n').filter((line) => line !== '')
}

describe.each(Object.keys(OFFERS))('%s', (shell) => {
  const offers = (line: string): Promise<readonly string[]> =>
    OFFERS[shell]?.(line) ?? Promise.resolve([])

  test('completes the commands', async () => {
    expect([...(await offers('bagfs log'))].sort()).toEqual(['log', 'login', 'logout'])
    expect(await offers('bagfs ')).toEqual(
      expect.arrayContaining(['mount', 'outbox', 'completion']),
    )
    expect([...(await offers('bagfs d'))].sort()).toEqual(['desktop', 'df', 'doctor'])
  })

  test('completes every option of mount, by the table that also makes help and README', async () => {
    expect(await offers('bagfs mount --')).toEqual(expect.arrayContaining(MOUNT_FLAGS))
    expect(await offers('bagfs mount drive --cache-size 1GB --wri')).toEqual(['--write-back'])
  })

  test('completes at each place what fits there', async () => {
    expect([...(await offers('bagfs service '))].sort()).toEqual(['disable', 'enable', 'status'])
    const drives = (await offers('bagfs service enable ')).map((each) => each.replace(/\/$/, ''))
    expect(drives).toEqual(expect.arrayContaining(['drive', 'work:']))
    expect(drives).not.toContain('disable')
  })

  test('completes values: words, files, directories and profiles', async () => {
    expect(await offers('bagfs mount --bridge dev')).toEqual(['dev-fuse'])
    expect(await offers('bagfs outbox sa')).toEqual(['save'])
    expect(await offers('bagfs ls --token-file tok')).toEqual(['token.txt'])
    expect(await offers('bagfs ls --profile wo')).toEqual(['work'])
    expect(await offers('bagfs logout ho')).toEqual(['home'])
    expect((await offers('bagfs umount dr')).map((each) => each.replace(/\/$/, ''))).toEqual([
      'drive',
    ])
    expect(await offers('bagfs mount wo')).toEqual(['work:'])
  })
})

describe('zsh', () => {
  /** Presses Tab in a terminal of zsh's own (zpty), the only way there, and waits for what then is on the line. */
  const completes = async (line: string, whole: string): Promise<void> => {
    const script = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; autoload -Uz compinit; compinit -u -d '${home}/zcompdump'; source '${scripts.get('zsh') ?? ''}'; zstyle ':completion:*' insert-tab false; print rea''dy"
zpty -r -m shell output '*ready*'
zpty -w -n shell "${line}"$'\\t'
zpty -r -m shell output '*${whole}*'`
    const options = { cwd: home, env: variables, timeout: 60_000 }
    await expect(run('zsh', ['-f', '-c', script], options)).resolves.toBeDefined()
  }

  test('completes a command, an option of mount, a word and a profile', async () => {
    await completes('bagfs compl', 'bagfs completion')
    await completes('bagfs mount --write', 'bagfs mount --write-back')
    await completes('bagfs mount --bridge dev', 'bagfs mount --bridge dev-fuse')
    await completes('bagfs ls --profile wo', 'bagfs ls --profile work')
    await completes('bagfs mount wo', 'bagfs mount work:')
  })
})
