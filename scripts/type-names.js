/**
 * Fails where a name of a type is given twice in src: a reader who looks one up must find one. `npm run names`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

const places = new Map()
for (const file of readdirSync('src', { recursive: true }).filter((name) => name.endsWith('.ts'))) {
  const path = join('src', file)
  const source = ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.Latest)
  for (const name of namesIn(source)) places.set(name, [...(places.get(name) ?? []), path])
}
const twice = [...places].filter(([, paths]) => paths.length > 1)
for (const [name, paths] of twice) console.error(`${name} is defined in ${paths.join(' and ')}`)
process.exitCode = twice.length > 0 ? 1 : 0

function namesIn(node) {
  const isType =
    ts.isInterfaceDeclaration(node) ||
    ts.isTypeAliasDeclaration(node) ||
    ts.isClassDeclaration(node) ||
    ts.isEnumDeclaration(node)
  const inside = []
  ts.forEachChild(node, (child) => {
    inside.push(...namesIn(child))
  })
  return isType && node.name !== undefined ? [node.name.text, ...inside] : inside
}
