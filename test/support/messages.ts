import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

/** Paths of the source files at or below a path. */
export function sourcesIn(path: string): readonly string[] {
  if (statSync(path).isFile()) return [path]
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(path, name))
}

/** The texts that a file has, with `…` in the place of each value. */
export function textsIn(path: string): readonly string[] {
  return nodesOf(path).flatMap((node) => textOf(node) ?? [])
}

/** The messages of the errors that a file makes, as `textsIn`; those that are put together elsewhere are left out. */
export function errorsIn(path: string): readonly string[] {
  return nodesOf(path).flatMap((node) => {
    const isError = ts.isNewExpression(node) && node.expression.getText() === 'DriveError'
    const message = isError ? node.arguments?.[1] : undefined
    return (message === undefined ? undefined : textOf(message)) ?? []
  })
}

/** First arguments, where they are texts, of the calls of these functions in a file. */
export function namesGivenTo(path: string, functions: readonly string[]): readonly string[] {
  return nodesOf(path).flatMap((node) => {
    const isCall = ts.isCallExpression(node) && functions.includes(node.expression.getText())
    const [first] = isCall ? node.arguments : []
    return first !== undefined && ts.isStringLiteral(first) ? [first.text] : []
  })
}

/** Values of the properties of this name, where they are texts. */
export function valuesOf(path: string, property: string): readonly string[] {
  return nodesOf(path).flatMap((node) =>
    ts.isPropertyAssignment(node) &&
    node.name.getText() === property &&
    ts.isStringLiteral(node.initializer)
      ? [node.initializer.text]
      : [],
  )
}

/** The members of a type that is a choice of texts. */
export function membersOf(path: string, type: string): readonly string[] {
  return nodesOf(path).flatMap((node) =>
    ts.isTypeAliasDeclaration(node) && node.name.text === type && ts.isUnionTypeNode(node.type)
      ? node.type.types.map((each) => each.getText().replaceAll("'", ''))
      : [],
  )
}

function nodesOf(path: string): readonly ts.Node[] {
  const text = readFileSync(path, 'utf8')
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const nodes: ts.Node[] = []
  const visit = (node: ts.Node): void => {
    nodes.push(node)
    ts.forEachChild(node, visit)
  }
  visit(source)
  return nodes
}

function textOf(node: ts.Node): string | undefined {
  if (!isShown(node)) return undefined
  if (ts.isStringLiteralLike(node)) return node.text
  if (!ts.isTemplateExpression(node)) return undefined
  return node.head.text + node.templateSpans.map(({ literal }) => `…${literal.text}`).join('')
}

/** What is no name of a module, and no text of a type. */
function isShown(node: ts.Node): boolean {
  return (
    !ts.isSourceFile(node) &&
    !ts.isImportDeclaration(node.parent) &&
    !ts.isLiteralTypeNode(node.parent)
  )
}
