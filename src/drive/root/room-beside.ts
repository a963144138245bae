import { DriveError } from '../../domain/errors.ts'
import type { Logger } from '../../domain/logger.ts'
import type { FileNode } from '../tree/nodes.ts'
import type { RefusedChanges, RoomGroup } from '../space/room.ts'
import type { Space } from '../space/space.ts'

interface BesideDeps {
  readonly space: Space
  readonly log: Logger
}

/** Content of one name, of which another version is to be stored. */
interface Versions {
  /** What it is called now, for people; undefined once it is gone. */
  readonly name: () => string | undefined
  /** Where it takes room already. */
  readonly group?: RoomGroup
  /** Bytes that its next version takes beside what it takes already. */
  readonly unheldBytes: () => number
  /** Counts exactly what is only known by a bound. */
  readonly recount: () => void
}

/**
 * The service stores a new version beside the old one, which goes after that. Where there is no room for
 * both, a change is refused while it is made. `status` tells it for as long as it would be refused again.
 */
export class RoomBeside {
  readonly #deps: BesideDeps
  readonly #versions: Versions
  /** What the change that was refused last would have added. */
  #refusedGrowth: number | undefined

  constructor(deps: BesideDeps, versions: Versions) {
    this.#deps = deps
    this.#versions = versions
  }

  /** True when the next version fits by what was last heard, with so many bytes more in it. */
  fits(growth = 0): boolean {
    const { group, unheldBytes } = this.#versions
    return this.#deps.space.leaves(group, unheldBytes() + growth)
  }

  /** Throws `no-space` when it does not, after asking the service once more. */
  async check(growth = 0): Promise<void> {
    if (await this.#isRoom(growth)) {
      this.forget()
      return
    }
    this.#noteRefusal(growth)
    throw new DriveError('no-space', 'The new version does not fit beside the old one.', {
      hint: 'Delete something from the folder or the account, or get more space.',
    })
  }

  async #isRoom(growth: number): Promise<boolean> {
    if (this.fits(growth)) return true
    this.#versions.recount()
    if (this.fits(growth)) return true
    await this.#deps.space.ask()
    return this.fits(growth)
  }

  #noteRefusal(growth: number): void {
    const { space, log } = this.#deps
    if (this.#refusedGrowth === undefined) {
      log.warn({ ...this.#figures(growth) }, 'There is no room for a new version.')
    }
    this.#refusedGrowth = growth
    space.noteRefusal(this)
  }

  /** Why a change was refused; undefined once it would fit. */
  refused(): RefusedChanges | undefined {
    const growth = this.#refusedGrowth
    if (growth === undefined) return undefined
    if (this.#versions.name() !== undefined && !this.fits(growth)) return this.#figures(growth)
    this.forget()
    return undefined
  }

  forget(): void {
    this.#refusedGrowth = undefined
  }

  #figures(growth: number): RefusedChanges {
    const { name, group, unheldBytes } = this.#versions
    const held = group?.bytes ?? 0
    const leftBytes = Math.max(0, (this.#deps.space.freeFor(group) ?? 0) + held)
    return { name: name() ?? '', neededBytes: held + unheldBytes() + growth, leftBytes }
  }
}

/** Room for content that is at the service and is stored once more: under another name, or in another place. */
export class RootRoom {
  readonly #deps: BesideDeps
  readonly #byNode = new WeakMap<FileNode, RoomBeside>()

  constructor(deps: BesideDeps) {
    this.#deps = deps
  }

  /** Throws `no-space` when so many bytes of a node do not fit beside it, see `RoomBeside`. */
  async check(node: FileNode, bytes: number): Promise<void> {
    if (bytes > 0) await this.#of(node).check(bytes)
  }

  #of(node: FileNode): RoomBeside {
    const known = this.#byNode.get(node)
    if (known !== undefined) return known
    const made = new RoomBeside(this.#deps, {
      name: () => node.name,
      unheldBytes: () => 0,
      recount: () => undefined,
    })
    this.#byNode.set(node, made)
    return made
  }
}
