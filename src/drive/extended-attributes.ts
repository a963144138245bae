import type { ExtendedValues } from '../domain/attributes.ts'
import type { Clock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import type { NodeId } from '../domain/ids.ts'
import type { Homes } from './homes.ts'

/** What the extended attributes of a file may take, as they are kept. */
const EXTENDED_BYTES = 1 << 17

/** True for the extended attributes that programs give meaning to. */
function isOfPrograms(name: string): boolean {
  return name.startsWith('user.') && !name.startsWith('user.bagfs.')
}

interface ExtendedAttributesDeps {
  readonly homes: Homes
  /** Makes a change of a node where it is. */
  readonly change: (node: NodeId, task: () => Promise<void>) => Promise<void>
  readonly clock: Clock
}

/** The extended attributes of a node: those of the drive, `user.bagfs.*`, and what programs keep in `user.*`. */
export class ExtendedAttributes {
  readonly #deps: ExtendedAttributesDeps

  constructor(deps: ExtendedAttributesDeps) {
    this.#deps = deps
  }

  async list(node: NodeId): Promise<readonly string[]> {
    const home = this.#deps.homes.at(node)
    const { extended = {} } = await home.getAttributes(node)
    return [...home.listExtended(node), ...Object.keys(extended)]
  }

  /** Rejects `no-attribute` when there is none of this name. */
  async get(node: NodeId, name: string): Promise<Buffer> {
    const home = this.#deps.homes.at(node)
    if (!isOfPrograms(name)) return Buffer.from(home.getExtended(node, name))
    const value = (await home.getAttributes(node)).extended?.[name]
    if (value === undefined) throw new DriveError('no-attribute', `There is no attribute ${name}.`)
    return Buffer.from(value, 'base64')
  }

  /** `user.bagfs.description`, `user.bagfs.kind` and those of programs; others are refused as `unsupported`. */
  async set(
    node: NodeId,
    name: string,
    value: Uint8Array,
    options: { readonly must?: 'make' | 'replace' } = {},
  ): Promise<void> {
    await this.#deps.change(node, () => this.#set(node, name, value, options))
  }

  async #set(
    node: NodeId,
    name: string,
    value: Uint8Array,
    { must }: { readonly must?: 'make' | 'replace' } = {},
  ): Promise<void> {
    if (!isOfPrograms(name)) {
      const home = this.#deps.homes.changing(node)
      await home.setExtended(node, name, Buffer.from(value).toString())
      return
    }
    const there = await this.#ofPrograms(node)
    const isThere = name in there
    if (must === 'make' && isThere) throw new DriveError('exists', 'There is such an attribute.')
    if (must === 'replace' && !isThere) throw new DriveError('no-attribute', 'There is none.')
    await this.#change(node, { ...there, [name]: Buffer.from(value).toString('base64') })
  }

  /** Rejects `no-attribute` when there is none of this name. */
  async remove(node: NodeId, name: string): Promise<void> {
    await this.#deps.change(node, () => this.#remove(node, name))
  }

  async #remove(node: NodeId, name: string): Promise<void> {
    if (!isOfPrograms(name)) {
      await this.get(node, name)
      await this.#set(node, name, Buffer.alloc(0))
      return
    }
    const { [name]: removed, ...left } = await this.#ofPrograms(node)
    if (removed === undefined)
      throw new DriveError('no-attribute', `There is no attribute ${name}.`)
    await this.#change(node, left)
  }

  /** What programs keep with a node. Not the root has that, nor what the drive makes up. */
  async #ofPrograms(node: NodeId): Promise<ExtendedValues> {
    const { homes } = this.#deps
    const home = homes.changing(node)
    if (!homes.isStored(node)) {
      throw new DriveError('unsupported', 'No extended attributes are kept here.')
    }
    return (await home.getAttributes(node)).extended ?? {}
  }

  async #change(node: NodeId, extended: ExtendedValues): Promise<void> {
    if (JSON.stringify(extended).length > EXTENDED_BYTES) {
      throw new DriveError('no-space', 'The extended attributes of a file cannot take more room.')
    }
    const { homes, clock } = this.#deps
    await homes.changing(node).setAttributes(node, { extended, ctimeMs: clock.now() })
  }
}
