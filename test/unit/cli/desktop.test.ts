import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { desktopEntry, desktopFileName } from '../../../src/cli/desktop-entry.ts'
import { hasProgram } from '../../support/has-program.ts'

const MOUNTPOINTS = ['/mnt/x', '/home/me/My Drive', '/a/100%/$HOME/"q"', '/ü/`x`;y', '/back\\slash']
const SETTINGS = { program: ['/usr/bin/env', 'printf', '%s|'], variables: {} }

const execOf = (text: string): string => /^Exec=(.*)$/m.exec(text)?.[1] ?? ''

/** The words of a command line, as the specification has desktops read it: first as text, then between quotes. */
function wordsOf(exec: string): readonly string[] {
  const text = exec.replaceAll('\\\\', '\\').replaceAll('%%', '%')
  return Array.from(text.matchAll(/"((?:\\.|[^"\\])*)"/g), ([, word = '']) =>
    word.replaceAll(/\\(.)/g, '$1'),
  )
}

describe('the menu entry of a drive', () => {
  test.each(MOUNTPOINTS)(
    'mounts and opens %s by a click, whatever is in its name',
    (mountpoint) => {
      const text = desktopEntry({ profile: 'work', mountpoint }, SETTINGS)
      expect(wordsOf(execOf(text))).toEqual([
        ...SETTINGS.program,
        ...['desktop', 'open', `work:${mountpoint}`],
      ])
      expect(text).toContain('\nName=work (bagfs)\n')
    },
  )

  test('goes to where bagfs keeps things', () => {
    const variables = { XDG_STATE_HOME: '/var/lib/100% mine' }
    const text = desktopEntry({ profile: 'work', mountpoint: '/m' }, { ...SETTINGS, variables })
    expect(wordsOf(execOf(text)).slice(0, 2)).toEqual(['env', 'XDG_STATE_HOME=/var/lib/100% mine'])
  })

  test('is one that desktops take without a word', () => {
    if (!hasProgram('desktop-file-validate')) return
    const directory = mkdtempSync(join(tmpdir(), 'bagfs-menu-'))
    onTestFinished(() => {
      rmSync(directory, { recursive: true })
    })
    for (const mountpoint of MOUNTPOINTS) {
      const path = join(directory, desktopFileName('work'))
      writeFileSync(path, desktopEntry({ profile: 'work', mountpoint }, SETTINGS))
      const { stdout, stderr, status } = spawnSync('desktop-file-validate', [path], {
        encoding: 'utf8',
      })
      expect({ mountpoint, said: stdout + stderr, status }).toEqual({
        ...{ mountpoint, said: '', status: 0 },
      })
    }
  })
})
