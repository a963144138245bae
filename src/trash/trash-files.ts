import {
  chmodSync,
  constants,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { copyFile, lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { sha256OfFile } from '../disk/file-hash.ts'
import { ifThere } from '../disk/if-there.ts'
import { DriveError, fromFileSystem, isAbsent, systemErrorCode } from '../domain/errors.ts'
import { fileNameOf, type BagId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import { Turns } from '../domain/turns.ts'
import { formatItem, newestFirst, parseItem, type TrashItem } from './item.ts'

const CONTENT = /^[0-9a-f]{64}$/
const ITEM = /^([0-9a-f]{64})\.json$/
/** Small files are read so many at a time before a look at the clock. */
const ITEMS_PER_LOOK = 16

/**
 * The files of the trash: `<dir>/v1/<key>` is content, `<key>.json` what it was; the key is made of the bag's id.
 *
 * The content is placed first and the item written after it, in one step. It is taken away the other way round. So
 * content without an item is what a kill left, of a bag that was not deleted yet or that was given up.
 */
export class TrashFiles {
  readonly #root: string
  #going = 0

  private constructor(root: string) {
    this.#root = root
  }

  /** Makes the directory, and removes what a kill left. Answers all that is kept. */
  static async open(
    dir: string,
    log: Logger,
  ): Promise<{ readonly files: TrashFiles; readonly items: readonly TrashItem[] }> {
    const root = rootIn(dir)
    try {
      mkdirSync(root, { recursive: true, mode: 0o700 })
      chmodSync(dir, 0o700)
      const items = await readItems(root)
      const kept = new Set(items.flatMap(({ bagId }) => namesOf(bagId)))
      for (const name of readdirSync(root)) {
        if (kept.has(name)) continue
        log.debug({ name }, 'Removed from the trash: a kill left it half done.')
        await rm(join(root, name), { recursive: true, force: true })
      }
      return { files: new TrashFiles(root), items }
    } catch (error) {
      throw fromFileSystem(error, 'The trash cannot be used')
    }
  }

  /** For a command that only looks: changes nothing, and needs no lock. Newest first. */
  static async read(dir: string): Promise<readonly TrashItem[]> {
    return (await ifThere(readItems(rootIn(dir)), 'The trash cannot be read')) ?? []
  }

  /** Where the content of a bag is, or is to be placed. */
  contentPath(bagId: BagId): string {
    return join(this.#root, fileNameOf(bagId))
  }

  /** Where content lies that is fetched to be kept. */
  fetchedPath(bagId: BagId): string {
    return `${this.contentPath(bagId)}.fetched`
  }

  async removeFetched(bagId: BagId): Promise<void> {
    await rm(this.fetchedPath(bagId), { force: true })
  }

  /** Bytes of content that is placed; undefined where there is none. */
  lengthOf(bagId: BagId): number | undefined {
    return lstatSync(this.contentPath(bagId), { throwIfNoEntry: false })?.size
  }

  /** From now on the content that is placed is kept. */
  write(item: TrashItem): void {
    const path = this.#itemPath(item.bagId)
    const fresh = `${path}.new`
    writeFileSync(fresh, formatItem(item), { mode: 0o600 })
    renameSync(fresh, path)
  }

  /** Resolves when the room of the content is free. */
  async remove(bagId: BagId): Promise<void> {
    rmSync(this.#itemPath(bagId), { force: true })
    await this.removeContent(bagId)
  }

  /** The name is free at once; to free gigabytes takes long. */
  async removeContent(bagId: BagId): Promise<void> {
    this.#going += 1
    const going = `${this.contentPath(bagId)}.going-${this.#going}`
    try {
      renameSync(this.contentPath(bagId), going)
    } catch (error) {
      if (isAbsent(error)) return
      throw error
    }
    await rm(going, { force: true })
  }

  /**
   * Copies content to a new file. Rejects `corrupt`, with nothing written, where it is not what was kept: the power
   * was cut before it reached the disk. Resolves with its SHA-256.
   */
  async copyTo({ bagId, length, sha256 }: TrashItem, path: string): Promise<string> {
    try {
      await copyFile(
        this.contentPath(bagId),
        path,
        constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL,
      )
      const found = await sha256OfFile(path)
      const isWhole = (await lstat(path)).size === length && (sha256 ?? found) === found
      if (isWhole) return found
    } catch (error) {
      if (systemErrorCode(error) !== 'EEXIST') await rm(path, { force: true })
      throw fromFileSystem(error, 'Content of the trash cannot be copied')
    }
    await rm(path, { force: true })
    throw new DriveError('corrupt', 'What the trash has of it is not what was kept.', {
      hint: 'bagfs trash empty removes it.',
    })
  }

  #itemPath(bagId: BagId): string {
    return `${this.contentPath(bagId)}.json`
  }
}

function rootIn(dir: string): string {
  return join(dir, 'v1')
}

function namesOf(bagId: BagId): readonly string[] {
  const key = fileNameOf(bagId)
  return [key, `${key}.json`]
}

/** Those with content of the length that they tell. */
async function readItems(root: string): Promise<readonly TrashItem[]> {
  const turns = new Turns(ITEMS_PER_LOOK)
  const names = readdirSync(root)
  const contents = new Set(names.filter((name) => CONTENT.test(name)))
  const items: TrashItem[] = []
  for (const name of names) {
    const key = ITEM.exec(name)?.[1]
    const item = key !== undefined && contents.has(key) ? readItem(root, key) : undefined
    if (item !== undefined) items.push(item)
    if (turns.isOver()) await turns.next()
  }
  return items.sort(newestFirst)
}

function readItem(root: string, key: string): TrashItem | undefined {
  const item = parseItem(readFileSync(join(root, `${key}.json`), 'utf8'))
  if (item === undefined || fileNameOf(item.bagId) !== key) return undefined
  const found = lstatSync(join(root, key), { throwIfNoEntry: false })
  return found?.isFile() === true && found.size === item.length ? item : undefined
}
