import { DriveError, isDriveError } from '../../domain/errors.ts'
import type { BagId } from '../../domain/ids.ts'
import type { Logger } from '../../domain/logger.ts'
import { dataRange, type Archive } from '../../zip/archive.ts'
import type { PlanContent, PlanItem } from '../../zip/plan.ts'
import { nodeAt, pathOf, type LeafNode } from '../../zip/tree.ts'
import { isEncrypted } from '../../zip/zip-format.ts'
import type { PutIntent } from '../../intents/intent.ts'
import type { Listing } from '../../namespace/listing.ts'
import type { LeftOut } from './left-out.ts'
import type { MissingBags } from '../root/missing-bags.ts'
import type { Folder, OpenZip } from './folder.ts'

export interface SalvageDeps {
  readonly listing: Pick<Listing, 'current'>
  readonly missing: Pick<MissingBags, 'isGone'>
  readonly leftOut: Pick<LeftOut, 'note'>
  readonly log: Logger
}

/** For a folder whose base another machine deleted: its changes are stored with what is still to be had. */
export class Salvage {
  readonly #deps: SalvageDeps
  readonly #folder: Folder
  /** Versions that are being copied from. */
  #versions: readonly OpenZip[] = []

  constructor(deps: SalvageDeps, folder: Folder) {
    this.#deps = deps
    this.#folder = folder
  }

  /** True when the bag is certainly gone, and `error` is of that. Rejects when the service does not tell. */
  async isCalledFor(error: unknown, bagId: BagId, signal?: AbortSignal): Promise<boolean> {
    return isDriveError(error, 'gone') && (await this.#deps.missing.isGone(bagId, signal))
  }

  /**
   * The plan of a folder without what is nowhere. What this machine has of the base `gone` is taken from there. The
   * rest is taken from another version that has the same at the same path. Zips of those stay open until `end`.
   */
  async planOf(
    plan: readonly PlanItem[],
    gone: OpenZip,
    put: PutIntent,
    signal: AbortSignal,
  ): Promise<readonly PlanItem[]> {
    this.end()
    const records = this.#deps.listing.current()?.index.recordsOfUpload(put) ?? []
    const bags = new Set(records.map(({ bagId }) => bagId))
    bags.delete(gone.bagId)
    this.#versions = await openVersions(this.#folder, [...bags], this.#deps.log)
    const { kept, lost } = await salvage(plan, gone, this.#versions, signal)
    this.note(lost)
    return kept
  }

  /** Tells what is left out, by its paths. */
  note(paths: readonly string[]): void {
    const { serviceName: folder } = this.#folder.node
    this.#deps.leftOut.note(paths.map((path) => ({ folder, path })))
  }

  /** Tells that all is left out that was not changed here. */
  noteUnknown(): void {
    this.#deps.leftOut.note([{ folder: this.#folder.node.serviceName }])
  }

  end(): void {
    for (const { reader } of this.#versions) reader.close()
    this.#versions = []
  }
}

/** The zips of other versions of a folder; what is no folder is left out. */
async function openVersions(
  folder: Folder,
  bagIds: readonly BagId[],
  log: Logger,
): Promise<readonly OpenZip[]> {
  const zips: OpenZip[] = []
  try {
    for (const bagId of bagIds) {
      const zip = await openVersion(folder, bagId, log)
      if (zip !== undefined) zips.push(zip)
    }
    return zips
  } catch (error) {
    for (const { reader } of zips) reader.close()
    throw error
  }
}

async function openVersion(
  folder: Folder,
  bagId: BagId,
  log: Logger,
): Promise<OpenZip | undefined> {
  try {
    return await folder.openZip(bagId)
  } catch (error) {
    // What cannot be had for now may have what is missed.
    if (!isDriveError(error, 'corrupt', 'unsupported', 'too-large')) throw error
    log.debug({ bagId, error: String(error) }, 'Another version of a folder is no folder.')
    return undefined
  }
}

/** What is to be had of a plan, and the paths of what is not. */
async function salvage(
  plan: readonly PlanItem[],
  gone: OpenZip,
  versions: readonly OpenZip[],
  signal: AbortSignal,
): Promise<{ readonly kept: readonly PlanItem[]; readonly lost: readonly string[] }> {
  const kept: PlanItem[] = []
  const lost: string[] = []
  const held = heldOf(gone)
  for (const item of plan) {
    if (item.type !== 'file' || item.content.from === 'file') {
      kept.push(item)
      continue
    }
    const { node } = item.content
    const content =
      (await fromHeld(held, node, gone)) ?? (await fromVersions(versions, node, signal))
    if (content === undefined) lost.push(item.path)
    else kept.push({ ...item, content })
  }
  return { kept, lost }
}

/** A zip as far as it is on this machine: the service is not asked for the rest. */
function heldOf({ bagId, archive, reader }: OpenZip): Archive {
  const { length } = archive.source
  const read = async (
    bytes: Uint8Array,
    position: number,
    signal?: AbortSignal,
  ): Promise<number> => {
    if (!reader.holds(position, Math.min(position + bytes.length, length))) {
      throw new DriveError('gone', `Bag ${bagId} is gone, and this of it is not on this machine.`)
    }
    return reader.read(bytes, position, signal)
  }
  return { root: archive.root, source: { length, read } }
}

async function fromHeld(
  archive: Archive,
  node: LeafNode,
  { reader }: OpenZip,
): Promise<PlanContent | undefined> {
  try {
    const { position, length } = await dataRange(archive.source, node.member)
    return reader.holds(position, position + length)
      ? { from: 'archive', archive, node }
      : undefined
  } catch (error) {
    if (isDriveError(error, 'gone', 'corrupt')) return undefined
    throw error
  }
}

async function fromVersions(
  versions: readonly OpenZip[],
  node: LeafNode,
  signal: AbortSignal,
): Promise<PlanContent | undefined> {
  for (const { archive } of versions) {
    const same = nodeAt(archive.root, pathOf(node))
    if (same === undefined || same.type === 'directory' || !isSame(node, same)) continue
    try {
      await dataRange(archive.source, same.member, signal)
      return { from: 'archive', archive, node: same }
    } catch (error) {
      if (!isDriveError(error, 'corrupt')) throw error
    }
  }
  return undefined
}

/** Encrypted content may have no CRC-32 of its own. */
function isSame(one: LeafNode, other: LeafNode): boolean {
  return (
    one.zippedAs === other.zippedAs &&
    one.member.size === other.member.size &&
    one.member.crc32 === other.member.crc32 &&
    !isEncrypted(one.member) &&
    !isEncrypted(other.member)
  )
}
