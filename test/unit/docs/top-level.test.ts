import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const FILES = ['CHANGELOG.md', 'CONTRIBUTING.md', 'LICENSE', 'README.md']
const NPM = ['package-lock.json', 'package.json', 'tsconfig.json']
const DIRECTORIES = ['docs', 'scripts', 'src', 'test']

/** A line of .gitignore, as a pattern of names at the top. */
function patternOf(line: string): RegExp {
  const pattern = line.replaceAll('/', '').replaceAll('.', '\\.').replaceAll('*', '.*')
  return new RegExp(`^${pattern}$`)
}

it('the repository has nothing at its top but what a reader looks for', () => {
  const ignored = readFileSync('.gitignore', 'utf8').split('\n').map(patternOf)
  // What begins with a dot may be of the editor that a reader uses.
  const top = readdirSync('.').filter((name) => ![/^\./, ...ignored].some((one) => one.test(name)))
  expect(top.sort()).toEqual([...FILES, ...NPM, ...DIRECTORIES].sort())
})
