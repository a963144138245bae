import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { copyFile, lstat, open, rm } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { sha256OfFile } from '../disk/file-hash.ts'
import { DriveError, fromFileSystem, isAbsent, systemErrorCode } from '../domain/errors.ts'
import { BagReader } from './bag-reader.ts'
import type { Bag, BagDependencies } from './bag.ts'
import type { ReadDispatcher } from './read-dispatcher.ts'
import { Silence } from './silence.ts'
import { comesAgain } from './twice.ts'

const COPY_BYTES = 1024 * 1024

export interface CopyOptions {
  readonly signal?: AbortSignal
  /** Called with the bytes copied so far. */
  readonly onProgress?: (copiedBytes: number) => void
}

interface SumOptions extends CopyOptions {
  /** See `BagReader`. */
  readonly staysNear?: boolean
  /** Waited for before each block, with the bytes that were read so far. */
  readonly beforeBlock?: (copiedBytes: number) => Promise<void>
}

export interface HoldsOptions extends Pick<CopyOptions, 'signal'> {
  /** True when the service just said of the bag that it has that content. */
  readonly isVouched?: boolean
}

/** What all of a bag's content is known by. */
export interface ContentSum {
  /** In bytes. */
  readonly length: number
  /** 64 hex digits. */
  readonly sha256: string
}

type CopyDependencies = Pick<BagDependencies, 'service' | 'facts' | 'clock'> & {
  readonly readDispatcher: ReadDispatcher
}

/** Takes all of a bag's content out of the cache. What is copied may take the place of the bag, so it is checked. */
export class BagCopies {
  readonly #deps: CopyDependencies
  readonly #settings: { readonly silenceMs: number }

  constructor(deps: CopyDependencies, settings: { readonly silenceMs: number }) {
    this.#deps = deps
    this.#settings = settings
  }

  /**
   * Writes all of a bag's content to `path`, which must not exist; resolves with its length. The copy may
   * take the place of the bag, so content of a length that nothing tells must come twice, all of it.
   */
  async copyTo(bag: Bag, path: string, options: CopyOptions): Promise<number> {
    const reader = new BagReader(bag, this.#deps.readDispatcher, { isProbe: false })
    let isOurs = false
    try {
      await bag.finalized()
      isOurs = bag.finalPath !== undefined && (await cloneFile(bag.finalPath, path))
      if (!isOurs) {
        const target = await open(path, 'wx', 0o600)
        isOurs = true
        await this.#copyContent(reader, target, options)
      }
      return await this.#checkCopy(bag, path, options)
    } catch (error) {
      if (isOurs) await rm(path, { force: true })
      throw toCopyError(error, path)
    } finally {
      reader.close()
    }
  }

  async #copyContent(reader: BagReader, target: FileHandle, options: CopyOptions): Promise<void> {
    try {
      const sum = this.#deps.facts.get(reader.bagId)?.sha256
      await copyContent(reader, (bytes) => target.writeFile(bytes), { ...options, sum })
    } finally {
      await target.close()
    }
  }

  /** Resolves with the length of a copy that may be believed. */
  async #checkCopy(bag: Bag, path: string, options: CopyOptions): Promise<number> {
    const { size: length } = await lstat(path)
    options.onProgress?.(length)
    if (bag.known.isTold(length)) return length
    const sha256 = await sha256OfFile(path, options.signal)
    await this.#compare(bag, { length, sha256 }, options.signal)
    return length
  }

  /**
   * Resolves when what is read of a bag may take its place. Then its length is known, or all of its content came
   * twice the same, or has the sum of what was written here. Rejects when it did not.
   */
  async confirm(bag: Bag, options: CopyOptions): Promise<void> {
    const { sha256 } = bag.known
    // What is complete was compared with the sum when it came; parts of it were not.
    const isKnown = sha256 === undefined ? bag.known.isTold(bag.length) : bag.isComplete
    if (isKnown || bag.known.isListed(bag.length)) return
    const sum = await this.sumOf(bag, options)
    if (sha256 === undefined) await this.#compare(bag, sum, options.signal)
    else if (sum.sha256 !== sha256) throw bag.contradicted()
  }

  /** Asks for the content once more; rejects when that is not the same. */
  async #compare(bag: Bag, before: ContentSum, signal: AbortSignal | undefined): Promise<void> {
    const { service, clock, facts } = this.#deps
    const silence = new Silence(clock, this.#settings.silenceMs)
    const isSame = await comesAgain({ service, silence }, bag.bagId, before, signal)
    if (!isSame) throw bag.contradicted()
    facts.learn(bag.bagId, { length: before.length, isCertain: true })
  }

  /**
   * Whether all of a bag's content has that sum. Where it has another one, what came may be of bad answers: unless
   * its length is told, and nothing `vouches` for the bag, it goes with its last reader, and comes anew.
   */
  async holds(bag: Bag, expected: ContentSum, options: HoldsOptions): Promise<boolean> {
    // Without one it is put aside as soon as it was read.
    const claim = bag.claim({})
    try {
      const { length, sha256 } = await this.sumOf(bag, options)
      if (length === expected.length && sha256 === expected.sha256) return true
      if (options.isVouched === true || !bag.known.isTold(length)) bag.contradicted()
      return false
    } finally {
      bag.release(claim, true)
    }
  }

  /** Length and SHA-256 of all of a bag's content, which need not fit on the disk. */
  async sumOf(bag: Bag, options: SumOptions): Promise<ContentSum> {
    const reader = new BagReader(bag, this.#deps.readDispatcher, {
      isProbe: false,
      fromStart: true,
      staysNear: options.staysNear ?? false,
    })
    const hash = createHash('sha256')
    try {
      const length = await copyContent(
        reader,
        (bytes) => {
          hash.update(bytes)
        },
        { ...options, sum: undefined },
      )
      return { length, sha256: hash.digest('hex') }
    } finally {
      reader.close()
    }
  }
}

/** Copies by the file system's own means; false when the content has gone from under its name. */
async function cloneFile(from: string, to: string): Promise<boolean> {
  try {
    await copyFile(from, to, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL)
    return true
  } catch (error) {
    if (isAbsent(error)) return false
    if (systemErrorCode(error) !== 'EEXIST') await rm(to, { force: true })
    throw error
  }
}

/** Content that went through a window was never whole, so its sum is taken here. */
async function copyContent(
  reader: BagReader,
  write: (bytes: Uint8Array) => Promise<void> | void,
  options: SumOptions & { readonly sum: string | undefined },
): Promise<number> {
  const block = Buffer.allocUnsafe(COPY_BYTES)
  const hash = options.sum === undefined ? undefined : createHash('sha256')
  let copied = 0
  for (;;) {
    reader.check()
    await options.beforeBlock?.(copied)
    const count = await reader.read(block, copied, options.signal)
    if (count === 0) break
    const bytes = block.subarray(0, count)
    hash?.update(bytes)
    await write(bytes)
    copied += count
    options.onProgress?.(copied)
  }
  if (hash === undefined || hash.digest('hex') === options.sum) return copied
  throw new DriveError('corrupt', `Bag ${reader.bagId} came with a wrong SHA-256.`)
}

function toCopyError(error: unknown, path: string): unknown {
  if (systemErrorCode(error) === 'EEXIST') {
    return new DriveError('exists', `${path} exists already.`, { cause: error })
  }
  return fromFileSystem(error, `Cannot write ${path}`)
}
