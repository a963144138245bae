import {
  chownSync,
  copyFileSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { execa } from 'execa'

const LIMIT_MS = 300_000
/** What lies beside the build in the package. */
const BESIDE = ['package.json', 'README.md', 'LICENSE', 'CHANGELOG.md']

/** The tarball of `npm pack`, made from a build of its own: other tests run the one in `dist`. */
export class PackedProgram {
  /** Holds all else. */
  readonly dir: string
  readonly tarball: string

  private constructor(dir: string, tarball: string) {
    this.dir = dir
    this.tarball = tarball
  }

  static async make(): Promise<PackedProgram> {
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-packed-'))
    const source = join(dir, 'source')
    mkdirSync(source)
    for (const name of BESIDE) copyFileSync(name, join(source, name))
    symlinkSync(resolve('node_modules'), join(source, 'node_modules'))
    await execa(process.execPath, ['scripts/build.js', join(source, 'dist'), '--package'])
    const { stdout } = await execa(
      'npm',
      ['pack', '--silent', '--ignore-scripts', '--pack-destination', dir],
      { cwd: source },
    )
    return new PackedProgram(dir, join(dir, stdout.trim()))
  }

  /** Paths of all that is in it, without `package/`. */
  async list(): Promise<readonly string[]> {
    const { stdout } = await execa('tar', ['-tzf', this.tarball])
    return stdout.split('\n').map((path) => path.replace(/^package\//, ''))
  }

  /** Variables by which npm takes what the first install has fetched, without a look at the registry. */
  get offline(): Readonly<Record<string, string>> {
    return { npm_config_cache: join(this.dir, 'npm-cache'), npm_config_offline: 'true' }
  }

  /**
   * `npm install -g` into an empty prefix, as the user of `ids` (arguments of setpriv) or as this one. Later ones take
   * what the first has fetched.
   */
  async install(prefix: string, user?: { readonly uid: number; readonly home: string }) {
    const cache = join(this.dir, 'npm-cache')
    mkdirSync(cache, { recursive: true })
    const args = ['install', '--global', '--prefix', prefix, '--cache', cache, '--prefer-offline']
    const command = ['npm', ...args, '--no-audit', '--no-fund', this.tarball]
    if (user === undefined) {
      await execa(command[0] ?? '', command.slice(1), { timeout: LIMIT_MS })
      return
    }
    const { uid, home } = user
    giveTo(uid, cache)
    const ids = [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups']
    const env = ['env', '-i', `HOME=${home}`, `PATH=${process.env['PATH'] ?? ''}`]
    await execa('setpriv', [...ids, ...env, ...command], { cwd: home, timeout: LIMIT_MS })
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true })
  }
}

function giveTo(uid: number, dir: string): void {
  chownSync(dir, uid, uid)
  for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
    lchownSync(join(dir, name), uid, uid)
  }
}
