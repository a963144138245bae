import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

interface Instruction {
  readonly name: string
  readonly text: string
}

const dockerfile = readFileSync('scripts/Dockerfile', 'utf8')
const instructions: readonly Instruction[] = dockerfile
  .replace(/^#.*\n/gm, '')
  .replaceAll('\\\n', ' ')
  .split('\n')
  .filter((line) => line.trim() !== '')
  .map((line) => {
    const [, name = '', text = ''] = /^([A-Z]+) (.*)$/.exec(line) ?? []
    return { name, text }
  })

const of = (wanted: string): readonly string[] =>
  instructions.filter(({ name }) => name === wanted).map(({ text }) => text)

/** Only its words are checked here: no container is started. */
describe('scripts/Dockerfile', () => {
  it('copies only what is in the repository, and all that the package has beside the build', () => {
    const copied = of('COPY')
      .filter((text) => !text.startsWith('--from'))
      .flatMap((text) => text.split(' ').slice(0, -1))
    expect(copied.filter((path) => !existsSync(path))).toEqual([])
    expect(copied).toEqual(
      expect.arrayContaining(['README.md', 'LICENSE', 'CHANGELOG.md', 'src', 'scripts']),
    )
  })

  it('runs commands that a shell can read', () => {
    expect(of('RUN')).toHaveLength(4)
    for (const command of of('RUN')) execFileSync('sh', ['-n'], { input: command })
  })

  it('is run by a user without rights, who owns the volume and the directory of the drive', () => {
    expect(of('USER')).toEqual(['node'])
    const [home = ''] = of('ENV')
    expect(of('VOLUME')).toEqual([home.replace('HOME=', '')])
    const [command = ''] = of('CMD')
    const directories = [...of('VOLUME'), (JSON.parse(command) as string[]).at(-1)]
    expect(of('RUN').join('\n')).toContain(`chown node:node ${directories.join(' ')}`)
  })

  it('is told with the run line that FUSE needs', () => {
    const told = readFileSync('docs/INSTALL.md', 'utf8')
    for (const needed of [
      '--device /dev/fuse',
      '--cap-add SYS_ADMIN',
      '--file scripts/Dockerfile',
    ]) {
      expect(told).toContain(needed)
    }
    expect(told).toContain(`--volume bagfs:${of('VOLUME')[0] ?? ''}`)
  })

  it('is told to mount below the directory that the host shares: a drive hides no other mount', () => {
    const told = readFileSync('docs/INSTALL.md', 'utf8')
    const [, shared = ''] = /target=([^,]+),bind-propagation=rshared/.exec(told) ?? []
    const [, drive = ''] = /--foreground --allow-other (\S+)/.exec(told) ?? []
    expect(shared).not.toBe('')
    expect(drive.startsWith(`${shared}/`)).toBe(true)
  })
})
