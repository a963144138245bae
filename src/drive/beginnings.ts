import type { NodeId } from '../domain/ids.ts'
import type { Homes } from './homes.ts'
import type { MadeAttributes } from './tree/home.ts'

/** The set-group-ID bit. */
const S_ISGID = 0o2000

/** What something begins with that is made in a directory: mode and owner, as Linux has it. */
export class Beginnings {
  readonly #homes: Pick<Homes, 'at'>
  readonly #umask: number

  constructor(homes: Pick<Homes, 'at'>, { umask }: { readonly umask: number }) {
    this.#homes = homes
    this.#umask = umask
  }

  /** A mode without the bits that the drive takes away from each. */
  masked(mode: number): number {
    return mode & ~this.#umask
  }

  async of(parent: NodeId, made: MadeAttributes): Promise<MadeAttributes> {
    return (await this.#handed(parent, made)).made
  }

  /** A directory that hands its group on makes directories that do so, too. */
  async ofDirectory(parent: NodeId, made: MadeAttributes): Promise<MadeAttributes> {
    const { made: begun, isHanded } = await this.#handed(parent, made)
    return isHanded ? { ...begun, mode: begun.mode | S_ISGID } : begun
  }

  /** In a directory with the set-group-ID bit it is of the group of that; `isHanded` tells so. */
  async #handed(
    parent: NodeId,
    { mode, uid, gid }: MadeAttributes,
  ): Promise<{ readonly made: MadeAttributes; readonly isHanded: boolean }> {
    const above = await this.#homes.at(parent).getAttributes(parent)
    const isHanded = (above.mode & S_ISGID) !== 0
    return { made: { mode: this.masked(mode), uid, gid: isHanded ? above.gid : gid }, isHanded }
  }
}
