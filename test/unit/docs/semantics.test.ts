import { existsSync, readFileSync } from 'node:fs'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'

interface Proof {
  /** Path of a test file under `test`, without `.test.ts`. */
  readonly file: string
  readonly title: string
}

interface Statement {
  /** Its section and number: `Names 1`. */
  readonly id: string
  readonly text: string
  readonly proofs: readonly Proof[]
}

/** The statements of docs/SEMANTICS.md: numbered items under a section, with a proof in each line below. */
function parseStatements(markdown: string): readonly Statement[] {
  const statements: { id: string; text: string; proofs: Proof[] }[] = []
  let section = ''
  for (const line of markdown.split('\n')) {
    const [, number, text] = /^(\d+)\. (.+)$/.exec(line) ?? []
    const [, file, title] = /^ +- (\S+): `(.+)`$/.exec(line) ?? []
    if (line.startsWith('## ')) section = line.slice(3)
    else if (number !== undefined) {
      statements.push({ id: `${section} ${number}`, text: text ?? '', proofs: [] })
    } else if (file !== undefined && title !== undefined) {
      statements.at(-1)?.proofs.push({ file, title })
    } else if (/^\s*[-*] /.test(line) || /^ +\S/.test(line)) {
      throw new Error(`Neither a statement nor a proof: ${line}`)
    }
  }
  return statements
}

/** Titles of the tests in a file that run: those of `it` and `test`, with `each` and `runIf`. */
function titlesIn(path: string): ReadonlySet<string> {
  const titles = new Set<string>()
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest)
  const visit = (node: ts.Node): void => {
    const title = ts.isCallExpression(node) ? node.arguments[0] : undefined
    if (title !== undefined && ts.isStringLiteralLike(title) && isTest(node)) titles.add(title.text)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return titles
}

function isTest(node: ts.Node): boolean {
  const words: string[] = []
  let at: ts.Node = node
  while (ts.isCallExpression(at) || ts.isPropertyAccessExpression(at)) {
    if (ts.isPropertyAccessExpression(at)) words.push(at.name.text)
    at = at.expression
  }
  const isRun = !words.some((word) => ['skip', 'todo', 'fails'].includes(word))
  return isRun && ts.isIdentifier(at) && ['it', 'test'].includes(at.text)
}

/** What is wrong with a statement, a line each. */
function problemsOf({ id, proofs }: Statement): readonly string[] {
  if (proofs.length === 0) return [`${id} names no test.`]
  return proofs.flatMap(({ file, title }) => {
    const path = `test/${file}.test.ts`
    if (!existsSync(path)) return [`${id} names ${path}, which does not exist.`]
    return titlesIn(path).has(title) ? [] : [`${id}: ${path} has no test "${title}".`]
  })
}

const statements = parseStatements(readFileSync('docs/SEMANTICS.md', 'utf8'))

describe('docs/SEMANTICS.md', () => {
  it('has statements, numbered from 1 in each section', () => {
    expect(statements.length).toBeGreaterThan(40)
    const next = new Map<string, number>()
    for (const { id } of statements) {
      const section = id.replace(/ \d+$/, '')
      const number = (next.get(section) ?? 0) + 1
      next.set(section, number)
      expect(id).toBe(`${section} ${number}`)
    }
  })

  it.each(statements)('$id is proved by tests that exist', (statement) => {
    expect(problemsOf(statement)).toEqual([])
  })
})

describe('the check of the statements', () => {
  const check = (markdown: string): readonly string[] =>
    parseStatements(`## Names\n\n${markdown}`).flatMap(problemsOf)

  it('finds a statement without a test', () => {
    expect(check('1. All is well.')).toEqual(['Names 1 names no test.'])
  })

  it('finds a test or a file that is not there', () => {
    const made = '1. All is well.\n   - unit/docs/semantics: `is made up`\n   - unit/no/such: `x`'
    expect(check(made)).toEqual([
      'Names 1: test/unit/docs/semantics.test.ts has no test "is made up".',
      'Names 1 names test/unit/no/such.test.ts, which does not exist.',
    ])
  })

  it('finds a proof that is not written as one', () => {
    expect(() => check('1. All is well.\n   - the tests')).toThrow(
      'Neither a statement nor a proof',
    )
  })

  it('takes a test that is there', () => {
    expect(check('1. So.\n   - unit/docs/semantics: `takes a test that is there`')).toEqual([])
  })
})
