import { execFile } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const FEWEST_LINES = 5
const MOST_LINES = 20
const MOST_LINES_OF_ORDER = 15
const MOST_ROWS = 12

const sources = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((path) =>
  path.endsWith('.ts'),
)
const folders = [...new Set(sources.map((path) => join('src', path, '..')))].sort()
const declared = new Set(sources.flatMap((path) => declaredIn(join('src', path))))

/** Names that a file exports. */
function declaredIn(path: string): readonly string[] {
  const declaration =
    /^export (?:async |abstract )?(?:class|interface|type|const|function\*?) (\w+)/gm
  return Array.from(readFileSync(path, 'utf8').matchAll(declaration), ([, name]) => name ?? '')
}

function readmeOf(folder: string): string {
  const path = join(folder, 'README.md')
  return existsSync(path) ? readFileSync(path, 'utf8') : ''
}

/** The words in backquotes that match `pattern`. */
function quoted(text: string, pattern: RegExp): readonly string[] {
  return Array.from(text.matchAll(/`([^`\n]+)`/g), ([, word]) => word ?? '').filter((word) =>
    pattern.test(word),
  )
}

describe.each(folders)('the README of %s', (folder) => {
  const text = readmeOf(folder)

  it('is there, and short', () => {
    const lines = text.trimEnd().split('\n').length
    expect(lines).toBeGreaterThanOrEqual(FEWEST_LINES)
    expect(lines).toBeLessThanOrEqual(MOST_LINES)
  })

  it('names only files that exist', () => {
    const missing = Array.from(text.matchAll(/[\w./-]+\.ts\b/g), ([path]) => path).filter(
      (path) => !existsSync(join(folder, path)) && !existsSync(join('src', path)),
    )
    expect(missing).toEqual([])
  })

  it('names only types that exist', () => {
    const names = quoted(text, /^[A-Z]+[a-z]\w*$/)
    expect(names.filter((name) => !declared.has(name))).toEqual([])
  })
})

describe('docs/ARCHITECTURE.md', () => {
  const text = readFileSync('docs/ARCHITECTURE.md', 'utf8')

  it('draws the rooms as they are', { timeout: 120_000 }, async () => {
    const { stdout } = await promisify(execFile)('npm', ['run', '--silent', 'drawing'])
    const [, drawn] = /```mermaid\n(.*?)\n```/s.exec(text) ?? []
    expect(drawn).toBe(stdout.trim())
  })

  it('names only files that exist', () => {
    const paths = quoted(text, /^[\w.-]+\/[\w./-]+\.(?:ts|md|cjs)$/)
    expect(paths).toContain('src/domain/README.md')
    expect(paths.filter((path) => !existsSync(path) && !existsSync(join('src', path)))).toEqual([])
  })

  it('leads newcomers and changes in few lines', () => {
    const order = sectionOf(text, 'Reading order for newcomers')
    expect(order.split('\n').length).toBeLessThanOrEqual(MOST_LINES_OF_ORDER)
    const rows = sectionOf(text, 'Where to change what').match(/^\| .*`.*\|$/gm)
    expect(rows?.length).toBeLessThanOrEqual(MOST_ROWS)
  })
})

function sectionOf(text: string, title: string): string {
  const [, rest = ''] = text.split(`\n## ${title}\n`)
  expect(rest).not.toBe('')
  return rest.split('\n## ')[0]?.trim() ?? ''
}
