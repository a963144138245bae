import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ClassicLevel } from 'classic-level'
import { z } from 'zod'
import { DriveError, fromFileSystem, localDiskFull } from '../domain/errors.ts'
import { toBagId, type BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { BagFacts } from '../domain/record.ts'
import { ATTRIBUTE_NAMES, attributeFields } from './attribute-fields.ts'
import { findLevelCode } from '../disk/level-error.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'
import { lacksRoom, type Reserve } from './reserve.ts'

const bagFacts = z.object({
  kind: z.exactOptional(z.enum(['file', 'folder'])),
  length: z.optional(z.number()),
  isCertain: z.exactOptional(z.boolean()),
  sha256: z.exactOptional(z.string()),
  allocated: z.optional(z.number()),
  ...attributeFields,
})

/** The log of the database is never longer. */
const WRITE_BUFFER_BYTES = 1024 * 1024

/** Values are JSON, read one by one so that a damaged one costs no other. */
type Database = ClassicLevel

type Batch = { readonly type: 'put'; readonly key: BagId; readonly value: string }[]

interface FactsDeps {
  readonly log: Logger
  /** Given away when the store cannot be opened or written for want of room. */
  readonly reserve?: Pick<Reserve, 'release' | 'isOut'>
}

/** More than the database writes when it is opened: what its log holds goes into a table then. */
const OPEN_BYTES = 2 * WRITE_BUFFER_BYTES

interface Loaded {
  readonly database: Database
  readonly facts: Map<BagId, BagFacts>
}

/**
 * What we learned of bags, in a small key-value store. All of it is in memory too, because a stat
 * must not wait for a disk. What is learned is written behind, and by `flush` for certain.
 */
export class FactsStore {
  readonly #database: Database
  readonly #deps: FactsDeps
  readonly #dir: string
  /** Facts hold for ever, so nothing is ever removed. */
  readonly #facts: Map<BagId, BagFacts>
  /** Bags with facts that a power cut would lose. */
  readonly #unsynced = new Set<BagId>()
  /** Those of them with facts that a kill would lose. */
  #unwritten = new Set<BagId>()
  #writing: Promise<void> = Promise.resolve()
  #scheduled = false
  #listener: ((bagId: BagId) => void) | undefined
  /** A write failed: what follows half a record in the database's log would be lost with it. */
  #isBroken = false
  #isClosed = false

  private constructor({ database, facts }: Loaded, deps: FactsDeps, dir: string) {
    this.#database = database
    this.#facts = facts
    this.#deps = deps
    this.#dir = dir
  }

  /**
   * Opens `<dir>/facts/v1`. A damaged store is set aside as `facts.bad-<ms>` and a new one begun:
   * facts can be learned again. Rejects `locked` when another process has it open, `local-disk-full`, and
   * `local-io` when a new one cannot be made either.
   */
  static async open(deps: FactsDeps, { dir }: { readonly dir: string }): Promise<FactsStore> {
    const root = join(dir, 'facts')
    const begin = async (): Promise<FactsStore> =>
      new FactsStore(await load(root, deps.log), deps, dir)
    try {
      return await begin()
    } catch (error) {
      if (findLevelCode(error) === undefined) throw fromFileSystem(error, 'The facts')
      if (findLevelCode(error) === 'LEVEL_LOCKED') throw lockedBy(error)
      if (!(await lacksRoom(dir, OPEN_BYTES))) {
        return new FactsStore(await beginAnew(root, error, deps.log), deps, dir)
      }
      if (deps.reserve?.release() === true) return FactsStore.open(deps, { dir })
      throw localDiskFull('What was learned of bags cannot be read', error)
    }
  }

  get(bagId: BagId): BagFacts | undefined {
    return this.#facts.get(bagId)
  }

  /** All bags of which something is known. */
  bagIds(): Iterable<BagId> {
    return this.#facts.keys()
  }

  /** Adds to what is known of a bag; a field that is not given stays as it is. */
  learn(bagId: BagId, facts: BagFacts): void {
    const known = this.#facts.get(bagId) ?? {}
    const learned = { ...known, ...facts }
    if (isSame(known, learned)) return
    this.#warnOfChange(bagId, known, learned)
    this.#facts.set(bagId, learned)
    this.#listener?.(bagId)
    this.#unwritten.add(bagId)
    this.#unsynced.add(bagId)
    this.#schedule()
  }

  /** Calls `listener` when something else is known of a bag. There is one listener at most. */
  onChange(listener: (bagId: BagId) => void): void {
    this.#listener = listener
  }

  /** Resolves when all that was learned would survive a power cut. */
  async flush(): Promise<void> {
    await this.#inTurn(async () => {
      if (this.#unsynced.size === 0) return
      const bags = [...this.#unsynced]
      this.#unsynced.clear()
      this.#unwritten.clear()
      await this.#put(bags, { sync: true })
    })
  }

  /** Flushes; may be called again. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    try {
      await this.flush()
    } finally {
      await this.#database.close()
    }
  }

  /** Whatever is learned in one go of the event loop is one batch. */
  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#writeBehind().catch((error: unknown) => {
        this.#deps.log.warn({ error: String(error) }, 'Facts could not be written yet.')
      })
    })
  }

  async #writeBehind(): Promise<void> {
    await this.#inTurn(async () => {
      const bags = this.#unwritten
      this.#unwritten = new Set()
      if (bags.size > 0) await this.#put([...bags], { sync: false })
    })
  }

  /** What could not be written is tried again with the next that is learned, and by `flush`. */
  async #put(bags: readonly BagId[], options: { readonly sync: boolean }): Promise<void> {
    const batch = bags.map((key) => {
      return { type: 'put' as const, key, value: JSON.stringify(this.#facts.get(key)) }
    })
    try {
      await this.#write(batch, options)
    } catch (error) {
      for (const bagId of bags) {
        this.#unwritten.add(bagId)
        this.#unsynced.add(bagId)
      }
      throw fromFileSystem(error, 'What was learned of bags cannot be written')
    }
  }

  async #write(batch: Batch, options: { readonly sync: boolean }): Promise<void> {
    try {
      await this.#writeOnce(batch, options)
    } catch (error) {
      if (!(await lacksRoom(this.#dir, OPEN_BYTES))) throw error
      const { reserve } = this.#deps
      // Another change may have had it given away in this moment: there is room for both.
      if (reserve?.release() !== true && reserve?.isOut !== true) {
        throw localDiskFull('What was learned of bags cannot be written', error)
      }
      await this.#writeOnce(batch, options)
    }
  }

  async #writeOnce(batch: Batch, options: { readonly sync: boolean }): Promise<void> {
    if (this.#isBroken) {
      await this.#database.close()
      await this.#database.open()
      this.#isBroken = false
    }
    try {
      await this.#database.batch(batch, options)
    } catch (error) {
      this.#isBroken = true
      throw error
    }
  }

  /** One batch at a time, so that an older value never lands on a newer one. */
  #inTurn(task: () => Promise<void>): Promise<void> {
    const turn = this.#writing.then(task)
    this.#writing = turn.catch(() => undefined)
    return turn
  }

  /** A bag is immutable: a service that changes one, or a wrong first guess, is worth a word. */
  #warnOfChange(bagId: BagId, known: BagFacts, learned: BagFacts): void {
    const changed = (['kind', 'length', 'sha256'] as const).filter(
      (field) => known[field] !== undefined && known[field] !== learned[field],
    )
    if (changed.length === 0) return
    this.#deps.log.warn({ bagId, changed, known, learned }, 'A bag is not what it was before.')
  }
}

const COMPARED = ['kind', 'length', 'isCertain', 'sha256', 'allocated', ...ATTRIBUTE_NAMES] as const

function isSame(one: BagFacts, other: BagFacts): boolean {
  return COMPARED.every((field) => one[field] === other[field])
}

async function load(root: string, log: Logger): Promise<Loaded> {
  const path = join(root, 'v1')
  await makePrivateDirectory(path)
  const database: Database = new ClassicLevel(path, { writeBufferSize: WRITE_BUFFER_BYTES })
  await database.open()
  try {
    const facts = new Map<BagId, BagFacts>()
    for await (const [key, text] of database.iterator()) {
      const parsed = bagFacts.safeParse(parseJson(text))
      if (parsed.success && key !== '') facts.set(toBagId(key), parsed.data)
      else log.warn({ bagId: key }, 'Facts of a bag cannot be read and are forgotten.')
    }
    return { database, facts }
  } catch (error) {
    await database.close()
    throw error
  }
}

/** Sets a damaged store aside; puts it back when that was not what was wrong. */
async function beginAnew(root: string, damage: unknown, log: Logger): Promise<Loaded> {
  const aside = `${root}.bad-${Date.now()}`
  try {
    await rename(root, aside)
    const loaded = await load(root, log)
    log.warn({ aside, error: String(damage) }, 'The facts of bags are damaged: set aside.')
    return loaded
  } catch (error) {
    await rm(root, { recursive: true, force: true })
    await rename(aside, root)
    if (findLevelCode(error) === 'LEVEL_LOCKED') throw lockedBy(error)
    throw fromFileSystem(error, 'What was learned of bags cannot be read')
  }
}

function lockedBy(cause: unknown): DriveError {
  return new DriveError('locked', 'Another process uses this state directory.', {
    cause,
    hint: 'Use that mount, unmount it first, or choose another --state-dir.',
  })
}

/** Text that is no JSON gives undefined, which no schema takes. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
