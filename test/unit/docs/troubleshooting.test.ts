import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { toFailure } from '../../../src/cli/errors.ts'
import { DriveError, type DriveErrorCode } from '../../../src/domain/errors.ts'
import { errnoName, toErrno } from '../../../src/kernel/errno.ts'
import { listFuseRequirements } from '../../../src/mount/fuse-requirements.ts'
import {
  errorsIn,
  membersOf,
  namesGivenTo,
  sourcesIn,
  textsIn,
  valuesOf,
} from '../../support/messages.ts'

const page = readFileSync('docs/TROUBLESHOOTING.md', 'utf8')

/** First cells of a section's tables, without backquotes; a cell that joins two texts by `with` has both. */
function entriesOf(title: string): readonly string[] {
  const [, section = ''] = page.split(`\n## ${title}\n`)
  const [here = ''] = section.split('\n## ')
  return Array.from(here.matchAll(/^\| (`.*?) +\|/gm), ([, cell]) => cell ?? '').flatMap((cell) =>
    Array.from(cell.matchAll(/`([^`]+)`/g), ([, text]) => text ?? ''),
  )
}

const everywhere = Array.from(page.matchAll(/^\| (`.*?) +\|/gm), ([, cell]) => cell ?? '').join(
  '\n',
)

/** Which of these texts no table has an entry for, by their first lines. */
const missingOf = (texts: readonly string[]): readonly string[] =>
  [...new Set(texts)].filter((text) => !everywhere.includes(text.trim().split('\n')[0] ?? ''))

/** Nothing but values: what a person reads comes from elsewhere. */
const hasWords = (text: string): boolean => /[a-z]{2}/i.test(text)

/** For tests alone: a drive that kills itself. */
const CRASH_POINT = 'src/config/crash-point.ts'

/** Where a mount, its state and its account may fail before there is a drive. */
const BEFORE_A_DRIVE = [
  'src/mount',
  'src/state',
  'src/disk',
  'src/kernel/create-bridge.ts',
  'src/kernel/unmount.ts',
  ...['libc', 'dev-fuse-bridge', 'mount-device', 'session'].map(
    (name) => `src/kernel/dev-fuse/${name}.ts`,
  ),
  ...['token', 'runtime-dir', 'paths'].map((name) => `src/config/${name}.ts`),
  'src/profiles/keyring.ts',
  'src/cli/account.ts',
  'src/control/client.ts',
  'src/api',
].flatMap(sourcesIn)

describe('docs/TROUBLESHOOTING.md has an entry for', () => {
  it('each code of an error, with its exit code and errno', () => {
    const codes = membersOf('src/domain/errors.ts', 'DriveErrorCode') as readonly DriveErrorCode[]
    expect(codes.length).toBeGreaterThan(30)
    expect([...entriesOf('Codes')].sort()).toEqual([...codes].sort())
    const rows = codes.map((code) => {
      const error = new DriveError(code, 'It failed.')
      return [`\`${code}\``, String(toFailure(error).exitCode), errnoName(toErrno(error))]
    })
    const told = Array.from(page.matchAll(/^\| (`[\w-]+`) +\| (\d+) +\| (\w+) +\|/gm), (row) =>
      row.slice(1),
    )
    expect(told.sort()).toEqual(rows.sort())
  })

  it('each thing that bagfs doctor looks at', () => {
    const named = sourcesIn('src/cli/doctor').flatMap((path) => [
      ...namesGivenTo(path, ['runCheck', 'failed', 'checkDrive']),
      ...valuesOf(path, 'name'),
    ])
    const needed = (['dev-fuse', 'fuse-native'] as const).flatMap((bridge) =>
      listFuseRequirements({ searchPath: '', allowOther: true, isRoot: false, bridge }),
    )
    const checks = [...named, ...needed.map(({ name }) => name)]
    expect([...entriesOf('What bagfs doctor looks at')].sort()).toEqual([...new Set(checks)].sort())
  })

  it('each sentence by which a command fails', () => {
    const texts = textsIn('src/cli/errors.ts')
      .filter((text) => text.includes(' ') && !text.startsWith('Exit codes') && hasWords(text))
      .map((text) => text.split('\n')[0] ?? '')
      .map((text) => text.replace(/^bagfs: …+/, '…').replace(/^argument '\$1' /, ''))
    expect(texts.length).toBeGreaterThan(10)
    expect(missingOf(texts.filter((text) => text !== '…'))).toEqual([])
  })

  it('each state of a change that waits', () => {
    const states = textsIn('src/outbox/words.ts').filter(
      (text) =>
        hasWords(text) && !['confirmed', 'local', 'held', 'delete', 'put', 'folder'].includes(text),
    )
    expect(missingOf(states)).toEqual([])
  })

  it('each line of a status', () => {
    const lines = textsIn('src/mount/status-words.ts').flatMap(
      (text) => /^([A-Z]\w+:) +…/.exec(text)?.[1] ?? [],
    )
    expect(lines).toContain('Conflict:')
    expect([...entriesOf('Lines of a status')].sort()).toEqual([...new Set(lines)].sort())
  })

  it('each way in which the service is not reached', () => {
    const path = 'src/service/transport-errors.ts'
    const words = [...valuesOf(path, 'words'), ...namesGivenTo(path, ['notReached'])]
    expect(words.length).toBeGreaterThan(8)
    expect(missingOf(words)).toEqual([])
  })

  it('each message of a command, of the page of a drive, and of what waits or was deleted', () => {
    const rooms = ['cli', 'web', 'profiles', 'config', 'outbox', 'trash', 'control', 'loopback']
    const paths = [...rooms, 'metrics', 'trace'].flatMap((room) => sourcesIn(`src/${room}`))
    const messages = paths
      .filter((path) => path !== CRASH_POINT)
      .flatMap(errorsIn)
      .filter(hasWords)
    expect(messages.length).toBeGreaterThan(120)
    expect(missingOf(messages)).toEqual([])
  })

  it('each message by which a mount, its state or its account is refused', () => {
    const messages = BEFORE_A_DRIVE.flatMap(errorsIn).filter(hasWords)
    expect(messages.length).toBeGreaterThan(40)
    expect(missingOf(messages)).toEqual([])
  })
})
