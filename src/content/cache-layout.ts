import { chmodSync, lstatSync, mkdirSync, readdirSync, renameSync, unlinkSync } from 'node:fs'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { makeDirectory } from '../disk/make-directory.ts'
import { fromFileSystem, isAbsent } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'

/** What the cache holds of a bag: all of it, some of it, or bytes that failed their check. */
export type CacheFileKind = 'complete' | 'partial' | 'bad'

/** One bag's files as found on disk. `key` is `fileNameOf` its id; `bytes` is what they take. */
export interface FilesOfBag {
  readonly key: string
  readonly kind: CacheFileKind
  readonly bytes: number
  readonly usedAtMs: number
}

/** Where one bag's content is. `ranges` says which bytes of `part` are there. */
export interface ContentPaths {
  readonly complete: string
  readonly part: string
  readonly ranges: string
  readonly bad: string
}

const FOLDER = /^[0-9a-f]{2}$/
const FILE = /^([0-9a-f]{64})(\.part|\.ranges|\.bad)?$/
/** Names that only a crash leaves behind. */
const LEFTOVER = /^[0-9a-f]{64}\.(ranges\.new|adopting)$/
/** The text by which backup programs know a cache (bford.info/cachedir). */
const TAG =
  'Signature: 8a477f597d28d172789f06886806bc55\n# Content cached by bagfs; safe to delete.\n'

/**
 * The cache's files: `<dir>/v1/<2 hex>/<key>` is complete content, `.part` with `.ranges` some of
 * it, `.bad` what failed its check. Folders are 0700 and files 0600: only the owner may read them,
 * because they hold the account's content.
 */
export class CacheLayout {
  readonly #root: string
  readonly #trash: string
  readonly #log: Logger
  readonly #made = new Set<string>()
  #trashed = 0

  private constructor(root: string, log: Logger) {
    this.#root = root
    this.#trash = join(root, 'trash')
    this.#log = log
  }

  /** Makes the folders; rejects `local-io` or `local-disk-full` when that cannot be done. */
  static async open(dir: string, log: Logger): Promise<CacheLayout> {
    const root = join(dir, 'v1')
    try {
      makeDirectory(root)
      chmodSync(dir, 0o700)
      chmodSync(root, 0o700)
      const layout = new CacheLayout(root, log)
      // Content that was thrown away, but not yet deleted when the last process ended.
      await rm(layout.#trash, { recursive: true, force: true })
      await mkdir(layout.#trash, { mode: 0o700 })
      await writeFile(join(dir, 'CACHEDIR.TAG'), TAG, { mode: 0o600 })
      return layout
    } catch (error) {
      throw fromFileSystem(error, `Cannot use ${dir} as the cache directory`)
    }
  }

  paths(key: string): ContentPaths {
    const complete = join(this.#root, key.slice(0, 2), key)
    return {
      complete,
      part: `${complete}.part`,
      ranges: `${complete}.ranges`,
      bad: `${complete}.bad`,
    }
  }

  /** Makes the folder of a bag's files. */
  makeFolder(key: string): void {
    if (this.#made.has(key.slice(0, 2))) return
    mkdirSync(dirname(this.paths(key).complete), { recursive: true, mode: 0o700 })
    this.#made.add(key.slice(0, 2))
  }

  /** Called when a file could not be made for want of its folder: the cache was deleted. */
  forgetFolders(): void {
    this.#made.clear()
  }

  /**
   * Everything that is on disk, least recently used first. Removes what a crash left; files of
   * other names are not ours and stay. One folder at a time is read synchronously: 100,000 calls
   * through the thread pool would take several seconds.
   */
  async scan(): Promise<FilesOfBag[]> {
    const found: FilesOfBag[] = []
    for (const folder of await readdir(this.#root)) {
      if (FOLDER.test(folder)) this.#scanFolder(join(this.#root, folder), found)
      await setImmediate()
    }
    return found.sort((a, b) => a.usedAtMs - b.usedAtMs)
  }

  #scanFolder(folder: string, found: FilesOfBag[]): void {
    const names = new Set(readdirSync(folder))
    for (const name of names) {
      const path = join(folder, name)
      const [, key, suffix] = FILE.exec(name) ?? []
      if (key === undefined) {
        if (LEFTOVER.test(name)) this.#unlink(path)
      } else if (isStray(names, key, suffix)) {
        this.#unlink(path)
      } else if (suffix !== '.ranges') {
        const files = describe(path, key, suffix)
        if (files !== undefined) found.push(files)
      }
    }
  }

  /**
   * Takes a bag's files away. They leave their names at once, so that a new download of the same
   * bag cannot meet them. They are deleted off the main thread, because gigabytes take long.
   * Resolves when their space is free; never rejects.
   */
  async remove(key: string, kind: CacheFileKind): Promise<void> {
    const paths = this.paths(key)
    // `.ranges` goes first: without it a `.part` is not believed, whatever happens in between.
    const gone =
      kind === 'complete'
        ? [paths.complete]
        : kind === 'bad'
          ? [paths.bad]
          : [paths.ranges, paths.part]
    await Promise.all(gone.map((path) => this.#discard(path)))
  }

  async #discard(path: string): Promise<void> {
    this.#trashed += 1
    const trashed = join(this.#trash, String(this.#trashed))
    try {
      renameSync(path, trashed)
    } catch (error) {
      if (!isAbsent(error)) this.#warn(error, path)
      return
    }
    try {
      await rm(trashed)
    } catch (error) {
      this.#warn(error, path)
    }
  }

  #unlink(path: string): void {
    try {
      unlinkSync(path)
    } catch (error) {
      if (!isAbsent(error)) this.#warn(error, path)
    }
  }

  #warn(error: unknown, path: string): void {
    this.#log.warn({ err: error, path }, 'A file of the cache cannot be removed.')
  }
}

/** True for a half without its other half, and for a part beside the whole. */
function isStray(names: ReadonlySet<string>, key: string, suffix: string | undefined): boolean {
  if (suffix === '.part') return names.has(key) || !names.has(`${key}.ranges`)
  if (suffix === '.ranges') return names.has(key) || !names.has(`${key}.part`)
  return false
}

function describe(path: string, key: string, suffix: string | undefined): FilesOfBag | undefined {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (found?.isFile() !== true) return undefined
  const kind = suffix === '.part' ? 'partial' : suffix === '.bad' ? 'bad' : 'complete'
  // A part has holes, so its length says nothing; Linux counts blocks of 512 bytes.
  const bytes = kind === 'partial' ? found.blocks * 512 : found.size
  return { key, kind, bytes, usedAtMs: found.mtimeMs }
}
