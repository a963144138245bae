import { DriveError, goneFile, isDriveError } from '../domain/errors.ts'
import type { NodeId } from '../domain/ids.ts'
import type { OpenFolders } from './folders/open-folders.ts'
import type { DriveSettings } from './settings.ts'
import type { Attributes } from './tree/attributes.ts'
import type { Home } from './tree/home.ts'
import { ROOT, type Nodes } from './tree/nodes.ts'

/** A home of what the drive makes up: the node `top`, and what is below it. */
export interface MadeUp extends Home {
  readonly top: NodeId
}

interface HomesDeps {
  readonly nodes: Nodes
  readonly root: Home
  readonly folders: Home
  readonly openFolders: Pick<OpenFolders, 'follow'>
}

/** Leads to the home of a node, and has what the drive makes up in its root beside the account. */
export class Homes {
  readonly #deps: HomesDeps
  readonly #settings: Pick<DriveSettings, 'readOnly'>
  /** Directories that the drive makes up in its root, hidden from its listing. */
  readonly #hidden = new Map<string, MadeUp>()
  /** Files that the drive makes up in its root where the account has none of that name. */
  readonly #standIns = new Map<string, MadeUp>()

  constructor(deps: HomesDeps, settings: Pick<DriveSettings, 'readOnly'>) {
    this.#deps = deps
    this.#settings = settings
  }

  /** Shows a made-up directory under a hidden name of the root. */
  attach(name: string, make: (nodes: Nodes) => MadeUp): void {
    this.#hidden.set(name, make(this.#deps.nodes))
  }

  /** Shows a made-up file under a name of the root that no listing has, until something has that name. */
  standIn(name: string, make: (nodes: Nodes) => MadeUp): void {
    this.#standIns.set(name, make(this.#deps.nodes))
  }

  /** The home that keeps a node. Throws `not-found` when the node is gone. */
  at(node: NodeId): Home {
    const home = this.#deps.nodes.get(node)?.home
    if (home === undefined) throw goneFile()
    return typeof home === 'string' ? this.#deps[home] : home
  }

  /** As `at`, for a change. Throws `read-only` on a drive that takes none. */
  changing(node: NodeId): Home {
    if (this.#settings.readOnly) throw new DriveError('read-only', 'The drive is read-only.')
    return this.at(node)
  }

  /** As `changing`, for a name to make: the names of made-up directories are taken. */
  making(parent: NodeId, name: string): Home {
    if (parent === ROOT && this.#hidden.has(name)) {
      throw new DriveError('exists', 'This name is the drive’s own.')
    }
    return this.changing(parent)
  }

  /** The home of a directory, once it is known what its name stands for now: another machine may have replaced it. */
  async directory(node: NodeId): Promise<Home> {
    if (node !== ROOT) await this.#deps.openFolders.follow(node)
    return this.at(node)
  }

  /** True for what the account stores: not the root itself, nor what the drive makes up. */
  isStored(node: NodeId): boolean {
    return this.#deps.nodes.get(node)?.top !== undefined
  }

  /** Rejects `not-found` when nothing in the directory has this name. */
  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    const hidden = parent === ROOT ? this.#hidden.get(name) : undefined
    if (hidden !== undefined) return hidden.getAttributes(hidden.top)
    const found = (await this.directory(parent)).lookup(parent, name)
    const standIn = parent === ROOT ? this.#standIns.get(name) : undefined
    return standIn === undefined ? found : orStandIn(found, standIn)
  }

  /** As `lookup`, when the answer is at hand; undefined when it is not, or is an error. */
  lookupNow(parent: NodeId, name: string): Attributes | undefined {
    if (parent === ROOT && this.#hidden.has(name)) return undefined
    return this.at(parent).lookupNow?.(parent, name)
  }
}

/** What is there, else what stands in for it. */
async function orStandIn(found: Promise<Attributes>, standIn: MadeUp): Promise<Attributes> {
  try {
    return await found
  } catch (error) {
    if (isDriveError(error, 'not-found')) return standIn.getAttributes(standIn.top)
    throw error
  }
}
