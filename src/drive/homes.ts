import { DriveError, isDriveError } from '../domain/errors.ts'
import type { NodeId } from '../domain/ids.ts'
import type { FolderHome } from './folders/folder-home.ts'
import type { RootHome } from './root/root-home.ts'
import type { DriveSettings } from './settings.ts'
import type { Attributes } from './tree/attributes.ts'
import type { Home } from './tree/home.ts'
import { ROOT, type Nodes } from './tree/nodes.ts'

/** Where a made-up directory gets its ids. */
export interface DriveIds {
  nextNode(): NodeId
}

/** What the drive makes up: the node `top` of a home of its own, and what is below it. */
export interface MadeUp {
  readonly home: Home
  readonly top: NodeId
}

interface HomesDeps {
  readonly nodes: Nodes
  readonly root: RootHome
  readonly folders: FolderHome
}

/** The homes of all nodes: which one keeps a node, and what the drive makes up in its root beside the account. */
export class Homes {
  readonly #deps: HomesDeps
  readonly #settings: Pick<DriveSettings, 'readOnly'>
  readonly #all: Home[]
  /** Directories that the drive makes up in its root, hidden from its listing. */
  readonly #hidden = new Map<string, MadeUp>()
  /** Files that the drive makes up in its root where the account has none of that name. */
  readonly #standIns = new Map<string, MadeUp>()

  constructor(deps: HomesDeps, settings: Pick<DriveSettings, 'readOnly'>) {
    this.#deps = deps
    this.#settings = settings
    this.#all = [deps.folders, deps.root]
  }

  /** Shows a made-up directory under a hidden name of the root. */
  attach(name: string, make: (ids: DriveIds) => MadeUp): void {
    this.#hidden.set(name, this.#made(make))
  }

  /** Shows a made-up file under a name of the root that no listing has, until something has that name. */
  standIn(name: string, make: (ids: DriveIds) => MadeUp): void {
    this.#standIns.set(name, this.#made(make))
  }

  #made(make: (ids: DriveIds) => MadeUp): MadeUp {
    const { nodes } = this.#deps
    const made = make({ nextNode: () => nodes.allocate() })
    this.#all.unshift(made.home)
    return made
  }

  /** False when a node is gone, whatever had its name. */
  knows(node: NodeId): boolean {
    return this.#all.some((home) => home.owns(node))
  }

  /** The home that keeps a node. Throws `not-found` when the node is gone. */
  at(node: NodeId): Home {
    const owner = this.#all.find((home) => home.owns(node))
    if (owner === undefined) throw new DriveError('not-found', 'This file is gone.')
    return owner
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
    if (node !== ROOT) await this.#deps.folders.follow(node)
    return this.at(node)
  }

  /** True for what the account stores: not the root itself, nor what the drive makes up. */
  isStored(node: NodeId): boolean {
    const home = this.at(node)
    return node !== ROOT && (home === this.#deps.root || home === this.#deps.folders)
  }

  /** Rejects `not-found` when nothing in the directory has this name. */
  async lookup(parent: NodeId, name: string): Promise<Attributes> {
    const hidden = parent === ROOT ? this.#hidden.get(name) : undefined
    if (hidden !== undefined) return hidden.home.getAttributes(hidden.top)
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
async function orStandIn(found: Promise<Attributes>, { home, top }: MadeUp): Promise<Attributes> {
  try {
    return await found
  } catch (error) {
    if (isDriveError(error, 'not-found')) return home.getAttributes(top)
    throw error
  }
}
