import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import ts from 'typescript'

const ROOT = join(import.meta.dirname, '../../..')

/** Compiles src/domain, src/disk and src/state into `dir`, so that a process without a loader can run them. */
export async function compileState(dir: string): Promise<void> {
  await mkdir(dir, { recursive: true })
  await writeFile(join(dir, 'package.json'), '{"type":"module"}')
  await symlink(join(ROOT, 'node_modules'), join(dir, 'node_modules'))
  for (const folder of ['domain', 'disk', 'state']) {
    const from = join(ROOT, 'src', folder)
    await mkdir(join(dir, folder))
    for (const name of await readdir(from)) {
      const { outputText } = ts.transpileModule(await readFile(join(from, name), 'utf8'), {
        fileName: name,
        compilerOptions: {
          module: ts.ModuleKind.ESNext,
          target: ts.ScriptTarget.ES2022,
          rewriteRelativeImportExtensions: true,
        },
      })
      await writeFile(join(dir, folder, name.replace(/\.ts$/, '.js')), outputText)
    }
  }
}
