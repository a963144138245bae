/**
 * `npm run build`: the program, the package and the page of `bagfs status --web`, as a few files in `dist`, or in the directory
 * that is given. The libraries that they use are in them. One file loads several times faster than hundreds. Types are checked by `npm run types`.
 * With `--package`, and in `dist`, also all else that is packed: declarations, manual pages and completions.
 */
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { rolldown } from 'rolldown'
import { writeDeclarations } from './declarations.js'

const manifest = JSON.parse(readFileSync('package.json', 'utf8'))
const [target = 'dist', ...flags] = process.argv.slice(2)

/** Of the page, in the order of the one file that the browser gets: a later rule goes before an earlier one. */
const STYLES = ['colours', 'layout', 'lists', 'chart', 'controls', 'adapt']

/**
 * Libraries without what the drive has no use for, which takes a third of the time in which a command starts. What `src`
 * imports of them has to be here.
 */
const SLIM = {
  // Its own index loads fetch, web sockets, mocks and caches as well.
  undici: `
    import api from 'undici/lib/api/index.js'
    import Dispatcher from 'undici/lib/dispatcher/dispatcher.js'
    Object.assign(Dispatcher.prototype, api)
    export { default as buildConnector } from 'undici/lib/core/connect.js'
    export { default as errors } from 'undici/lib/core/errors.js'
    export { default as Client } from 'undici/lib/dispatcher/client.js'
    export { default as Pool } from 'undici/lib/dispatcher/pool.js'
  `,
  // As well as a push gateway, and what it takes to gather the metrics of several processes.
  'prom-client': `
    export { default as Registry } from 'prom-client/lib/registry.js'
    export { default as Counter } from 'prom-client/lib/counter.js'
    export { default as Gauge } from 'prom-client/lib/gauge.js'
    export { default as Histogram } from 'prom-client/lib/histogram.js'
  `,
}
const slimPathOf = (name) => resolve(`src/slim-${name}.js`)
const SLIM_TEXTS = new Map(Object.entries(SLIM).map(([name, text]) => [slimPathOf(name), text]))
const slimLibraries = {
  name: 'slim-libraries',
  resolveId: (id) => (Object.hasOwn(SLIM, id) ? slimPathOf(id) : null),
  load: (id) => SLIM_TEXTS.get(id) ?? null,
}

const bundle = await rolldown({
  input: { main: 'src/main.ts', bagfs: 'src/api/index.ts' },
  plugins: [slimLibraries],
  platform: 'node',
  // Native modules; npm installs them beside the program.
  external: Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies }),
})
const old = existsSync(target) ? readdirSync(target).filter((name) => !name.startsWith('.')) : []
for (const name of old) rmSync(join(target, name), { recursive: true })
const { output } = await bundle.write({ dir: target, format: 'esm' })
await bundle.close()
writeFileSync(join(target, 'LICENSES.txt'), licensesOf(output))

await buildPage('src/web/page', join(target, 'page'))

if (target === 'dist' || flags.includes('--package')) writeWhatIsPacked()

/** The program's own options are the text of its pages and completions, under the names by which shells find them. */
function writeWhatIsPacked() {
  writeDeclarations(join(target, 'types'))
  const run = (...args) => execFileSync(process.execPath, [join(target, 'main.js'), ...args])
  run('man-pages', join(target, 'man'))
  listManPages(join(target, '..', 'package.json'))
  mkdirSync(join(target, 'completions'))
  for (const [shell, name] of [
    ['bash', 'bagfs'],
    ['zsh', '_bagfs'],
    ['fish', 'bagfs.fish'],
  ]) {
    writeFileSync(join(target, 'completions', name), run('completion', shell))
  }
}

/** Of a tarball, npm links the pages that the manifest names one by one. */
function listManPages(path) {
  const text = readFileSync(path, 'utf8')
  const pages = readdirSync(join(target, 'man')).sort()
  const listed = { ...JSON.parse(text), man: pages.map((name) => `./dist/man/${name}`) }
  const wanted = `${JSON.stringify(listed, null, 2)}\n`
  if (wanted !== text) writeFileSync(path, wanted)
}

/** What runs in the browser is one script; the rest is served as it is. */
async function buildPage(source, directory) {
  const page = await rolldown({ input: join(source, 'main.ts'), platform: 'browser' })
  await page.write({ dir: directory, format: 'esm', entryFileNames: 'page.js' })
  await page.close()
  for (const name of ['index.html', 'icon.svg']) {
    copyFileSync(join(source, name), join(directory, name))
  }
  const styles = STYLES.map((name) => readFileSync(join(source, `${name}.css`), 'utf8'))
  writeFileSync(join(directory, 'page.css'), styles.join('\n'))
}

/** The notices of the packages that the bundle has parts of, as their licenses ask. */
function licensesOf(chunks) {
  const files = chunks.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []))
  const packages = new Set(files.filter((file) => file.includes('/node_modules/')).map(packageOf))
  return [...packages].sort().map(noticeOf).join('\n\n')
}

function packageOf(file) {
  const [, inside, name] = /^(.*\/node_modules\/)((?:@[^/]+\/)?[^/]+)/.exec(file)
  return inside + name
}

function noticeOf(directory) {
  const { name, version, license } = JSON.parse(
    readFileSync(join(directory, 'package.json'), 'utf8'),
  )
  const file = readdirSync(directory).find((each) => /^licen[cs]e/i.test(each))
  const text = file === undefined ? '' : `\n\n${readFileSync(join(directory, file), 'utf8').trim()}`
  return `${name} ${version} (${license})${text}`
}
