import { constants, type Stats } from 'node:fs'
import { lstat, readdir, readFile, readlink } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { ifThere } from './if-there.ts'
import { DriveError } from '../domain/errors.ts'

/** The sticky bit: in such a directory (`/tmp`), only its owner removes or renames an entry. */
const S_ISVTX = 0o1000
/** Links that lead to one another end where the kernel gives up, too. */
const MOST_LINKS = 40

/** What a person calls such a directory. */
export type PathName = '--state-dir' | 'data directory' | 'config directory'

/**
 * Refuses (`usage`, with the command that mends it) a directory that other users of this machine
 * can change. They can when they own or may write to it, what is in it, a link on its way or a
 * directory above it. A sticky directory above it will do. What does not exist yet is no reason.
 */
export async function refuseOpenPath(path: string, name: PathName = '--state-dir'): Promise<void> {
  const trust = await Trust.read(name)
  await trust.requireWay(path)
  for (const name of await readdirIfThere(path)) {
    const inside = join(path, name)
    const stat = await lstatIfThere(inside)
    if (stat?.isSymbolicLink() === true) await trust.requireWay(inside)
    else if (stat !== undefined) trust.require(inside, stat)
  }
}

/** Whose files this process takes for its own. */
class Trust {
  readonly #uid = process.getuid?.() ?? 0
  readonly #gid = process.getgid?.() ?? 0
  /** First and last uid of each range that this process can see. */
  readonly #known: readonly (readonly [number, number])[]
  readonly #name: PathName

  private constructor(name: PathName, known: readonly (readonly [number, number])[]) {
    this.#name = name
    this.#known = known
  }

  static async read(name: PathName): Promise<Trust> {
    const map = await readFile('/proc/self/uid_map', 'utf8').catch(() => '0 0 4294967295')
    const ranges = map.trim().split('\n')
    return new Trust(
      name,
      ranges.map((line) => {
        const [first = 0, , count = 0] = line.trim().split(/ +/).map(Number)
        return [first, first + count - 1]
      }),
    )
  }

  /** Every step from the root of the file system to `path`, and over the links among them. */
  async requireWay(path: string, linksLeft = MOST_LINKS): Promise<void> {
    const parts = path.split(sep).filter((part) => part !== '')
    for (let count = 0; count < parts.length; count += 1) {
      const step = sep + parts.slice(0, count).join(sep)
      const stat = await lstatIfThere(step)
      if (stat === undefined) return
      if (!stat.isSymbolicLink()) this.#requireAbove(step, stat)
      else return this.#requireLink(step, stat, { rest: parts.slice(count), linksLeft })
    }
    const stat = await lstatIfThere(path)
    if (stat?.isSymbolicLink() === true)
      return this.#requireLink(path, stat, { rest: [], linksLeft })
    if (stat !== undefined) this.require(path, stat)
  }

  /** What is ours alone. */
  require(path: string, stat: Stats): void {
    const { uid } = stat
    if (!this.#isTrusted(uid)) {
      throw new DriveError('usage', `${path} belongs to another user of this machine (${uid}).`, {
        hint: `If you trust what is in it: sudo chown -hR ${this.#uid} ${path}. ${this.#else}`,
      })
    }
    this.#requireClosed(path, stat)
  }

  #requireAbove(path: string, stat: Stats): void {
    const { uid, mode } = stat
    if (!this.#isTrusted(uid)) {
      throw new DriveError('usage', `${path} belongs to another user of this machine (${uid}).`, {
        hint: `Choose a ${this.#name} that is in a directory of your own.`,
      })
    }
    if ((mode & S_ISVTX) === 0) this.#requireClosed(path, stat)
  }

  /** The permissions of a link mean nothing: it is the owner of its directory that can change it. */
  async #requireLink(
    path: string,
    { uid }: Stats,
    { rest, linksLeft }: { readonly rest: readonly string[]; readonly linksLeft: number },
  ): Promise<void> {
    if (!this.#isTrusted(uid)) {
      throw new DriveError('usage', `${path} is a link of another user of this machine (${uid}).`, {
        hint: `Remove it if it is not meant to be there: rm ${path}. ${this.#else}`,
      })
    }
    const target = resolve(dirname(path), await readlink(path))
    if (linksLeft > 0) await this.requireWay(join(target, ...rest), linksLeft - 1)
  }

  get #else(): string {
    return `Else choose another ${this.#name}.`
  }

  /** In a container, the owners outside of it all look alike, and rule over it anyhow. */
  #isTrusted(uid: number): boolean {
    const isKnown = this.#known.some(([first, last]) => first <= uid && uid <= last)
    return uid === 0 || uid === this.#uid || !isKnown
  }

  #requireClosed(path: string, { mode, gid }: Stats): void {
    // Where each user has a group of his own, it has his number, and new files are open to it.
    const isOwnGroup = gid === this.#gid && gid === this.#uid
    const bits = isOwnGroup ? constants.S_IWOTH : constants.S_IWOTH | constants.S_IWGRP
    if ((mode & bits) === 0) return
    throw new DriveError('usage', `${path} can be changed by other users of this machine.`, {
      hint: `If you trust what is in it: chmod go-w ${path}. ${this.#else}`,
    })
  }
}

function lstatIfThere(path: string): Promise<Stats | undefined> {
  return ifThere(lstat(path), `Looking at ${path}`)
}

async function readdirIfThere(path: string): Promise<readonly string[]> {
  return (await ifThere(readdir(path), `Looking into ${path}`)) ?? []
}
