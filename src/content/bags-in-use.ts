import { chmodSync } from 'node:fs'
import { moveFile } from '../disk/move-file.ts'
import { DriveError } from '../domain/errors.ts'
import { fileNameOf, type BagId } from '../domain/ids.ts'
import { BagFile } from './bag-file.ts'
import { Bag, type BagDependencies, type BagSettings } from './bag.ts'

type Dependencies = Omit<BagDependencies, 'retired'>

/** The bags that are read, fetched or looked at right now: one for all that use it, made of what is on the disk. */
export class BagsInUse {
  readonly #dependencies: Dependencies
  readonly #settings: BagSettings
  /** By their keys; a bag leaves when it retires. */
  readonly #bags = new Map<string, Bag>()
  #isClosed = false

  constructor(dependencies: Dependencies, settings: BagSettings) {
    this.#dependencies = dependencies
    this.#settings = settings
  }

  /** One that is in use already. */
  get(bagId: BagId): Bag | undefined {
    return this.#bags.get(fileNameOf(bagId))
  }

  all(): readonly Bag[] {
    return [...this.#bags.values()]
  }

  /** Throws `bad-handle` once the cache is closed, `local-io` when the disk fails. */
  use(bagId: BagId): Bag {
    if (this.#isClosed) throw new DriveError('bad-handle', 'The cache is closed.')
    const key = fileNameOf(bagId)
    const inUse = this.#bags.get(key)
    if (inUse !== undefined) return inUse
    const dependencies: BagDependencies = {
      ...this.#dependencies,
      retired: () => {
        this.#bags.delete(key)
      },
    }
    const bag = new Bag({ ...this.#openFile(bagId, key), key }, dependencies, this.#settings)
    this.#bags.set(key, bag)
    return bag
  }

  #openFile(bagId: BagId, key: string): { file: BagFile; isComplete: boolean } {
    const { layout, space, facts, log } = this.#dependencies
    const idle = space.take(key)
    if (idle?.kind === 'complete') {
      const file = BagFile.openComplete(layout, bagId, key)
      const length = facts.get(bagId)?.length ?? idle.bytes
      if (file?.total === length) return { file, isComplete: true }
      file?.close()
    } else if (idle?.kind === 'partial') {
      const file = BagFile.openPartial(layout, bagId, key)
      if (file !== undefined) return { file, isComplete: false }
    }
    if (idle !== undefined) {
      log.warn({ bagId, kind: idle.kind }, 'Cached content is not as it was left; removed.')
      space.track(layout.remove(key, idle.kind))
    }
    return { file: BagFile.empty(layout, bagId, key), isComplete: false }
  }

  /** Moves a file of that length to the place of a bag's content, also of one in use. Errors are the disk's own. */
  async adopt(bagId: BagId, path: string, length: number): Promise<void> {
    const { layout, space } = this.#dependencies
    const key = fileNameOf(bagId)
    const { complete } = layout.paths(key)
    await space.reserve(length)
    try {
      layout.makeFolder(key)
      chmodSync(path, 0o600)
      await moveFile(path, complete)
    } finally {
      space.adjust(-length)
    }
    const inUse = this.#bags.get(key)
    const file = inUse && BagFile.openComplete(layout, bagId, key)
    if (inUse !== undefined && file !== undefined) {
      inUse.adopt(file)
      return
    }
    const replaced = space.take(key)
    if (replaced?.kind === 'partial') space.track(layout.remove(key, 'partial'))
    space.putBack(key, 'complete', length)
  }

  /** All are shut down, and none is used any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.all(this.all().map((bag) => bag.shutDown()))
  }
}
