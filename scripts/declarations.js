/** The types of the package: a declaration of `src/api/index.ts`, and of each file that its types come from. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import ts from 'typescript'

/** Writes them to a directory. Throws at a type that does not stand in its file, or that is a library's. */
export function writeDeclarations(target) {
  const waiting = ['src/api/index.ts']
  const seen = new Set(waiting)
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    const text = declarationOf(path)
    for (const needed of importsOf(text, path)) {
      if (!seen.has(needed)) waiting.push(needed)
      seen.add(needed)
    }
    const file = join(target, relative('src', path).replace(/\.ts$/, '.d.ts'))
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text.replace(/(from '\.[^']*)\.ts'/g, "$1.js'"))
  }
}

function declarationOf(path) {
  const { outputText, diagnostics = [] } = ts.transpileDeclaration(readFileSync(path, 'utf8'), {
    fileName: path,
    reportDiagnostics: true,
    compilerOptions: {
      target: ts.ScriptTarget.ES2023,
      module: ts.ModuleKind.NodeNext,
      isolatedDeclarations: true,
      declaration: true,
      strict: true,
      // Declarations keep their comments, which editors show.
      removeComments: false,
    },
  })
  if (diagnostics.length === 0) return outputText
  const words = diagnostics.map(({ messageText }) =>
    ts.flattenDiagnosticMessageText(messageText, ' '),
  )
  throw new Error(`${path}: ${words.join(' ')}`)
}

/** Paths of the files that a declaration names. Only Node's own modules may be named beside them. */
function importsOf(text, path) {
  return ts.preProcessFile(text).importedFiles.flatMap(({ fileName }) => {
    if (fileName.startsWith('.')) return [join(dirname(path), fileName)]
    if (fileName.startsWith('node:')) return []
    throw new Error(`${path}: the types of the package would need ${fileName}.`)
  })
}
