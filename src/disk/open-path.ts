import { constants, lstatSync, readFileSync, readlinkSync, type Stats } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { dirname, join, resolve, sep } from 'node:path'
import { ifThere, ifThereNow } from './if-there.ts'
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
  const trust = Trust.read(name)
  trust.requireWay(path)
  for (const name of await readdirIfThere(path)) {
    const inside = join(path, name)
    const stat = lstatIfThere(inside)
    if (stat?.isSymbolicLink() === true) trust.requireWay(inside)
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

  static read(name: PathName): Trust {
    const ranges = readUidMap().trim().split('\n')
    return new Trust(
      name,
      ranges.map((line) => {
        const [first = 0, , count = 0] = line.trim().split(/ +/).map(Number)
        return [first, first + count - 1]
      }),
    )
  }

  /** Every step from the root of the file system to `path`, and over the links among them. */
  requireWay(path: string, linksLeft = MOST_LINKS): void {
    const parts = path.split(sep).filter((part) => part !== '')
    for (let count = 0; count < parts.length; count += 1) {
      const step = sep + parts.slice(0, count).join(sep)
      const stat = lstatIfThere(step)
      if (stat === undefined) return
      if (!stat.isSymbolicLink()) this.#requireAbove(step, stat)
      else {
        this.#requireLink(step, stat, { rest: parts.slice(count), linksLeft })
        return
      }
    }
    const stat = lstatIfThere(path)
    if (stat?.isSymbolicLink() === true) {
      this.#requireLink(path, stat, { rest: [], linksLeft })
      return
    }
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
  #requireLink(
    path: string,
    { uid }: Stats,
    { rest, linksLeft }: { readonly rest: readonly string[]; readonly linksLeft: number },
  ): void {
    if (!this.#isTrusted(uid)) {
      throw new DriveError('usage', `${path} is a link of another user of this machine (${uid}).`, {
        hint: `Remove it if it is not meant to be there: rm ${path}. ${this.#else}`,
      })
    }
    const target = resolve(dirname(path), readlinkSync(path))
    if (linksLeft > 0) this.requireWay(join(target, ...rest), linksLeft - 1)
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

/** Of a system that tells of none: each user can be seen. */
function readUidMap(): string {
  try {
    return readFileSync('/proc/self/uid_map', 'utf8')
  } catch {
    return '0 0 4294967295'
  }
}

function lstatIfThere(path: string): Stats | undefined {
  return ifThereNow(() => lstatSync(path, { throwIfNoEntry: false }), `Looking at ${path}`)
}

async function readdirIfThere(path: string): Promise<readonly string[]> {
  return (await ifThere(readdir(path), `Looking into ${path}`)) ?? []
}
