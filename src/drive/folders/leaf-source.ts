import type { BagId } from '../../domain/ids.ts'
import type { Archive } from '../../zip/archive.ts'
import { openMember, readMember, readMemberNow } from '../../zip/content.ts'
import type { LeafNode } from '../../zip/tree.ts'
import type { Source } from '../tree/source.ts'
import type { InflatedFiles } from './inflated-files.ts'

/** Deflated entries up to this size are inflated in memory, in one read of the zip. */
const SMALL_BYTES = 256 * 1024

/** Opens the content of an entry of a folder's zip: small ones whole, stored ones in place, the rest inflated. */
export async function openLeaf(
  archive: Archive,
  node: LeafNode,
  bag: BagId,
  inflated: InflatedFiles,
): Promise<Source> {
  const { member } = node
  if (member.size <= SMALL_BYTES) {
    return new MemorySource(await readMember(archive, node, { maxBytes: SMALL_BYTES }))
  }
  const content = await openMember(archive, node)
  if (content.kind === 'uncompressed') {
    return {
      length: () => Promise.resolve(content.length),
      read: (buffer, position, signal) => content.readAt(buffer, position, signal),
      readNow: (buffer, position) => content.readNow(buffer, position),
      close: () => undefined,
    }
  }
  const key = `${bag} ${member.offset} ${member.crc32}`
  return inflated.open(key, content.length, (path, options) => content.inflateTo(path, options))
}

/** As `openLeaf`, at once: small content that is on the local disk. Undefined for all other, and on an error. */
export function openLeafNow(archive: Archive, node: LeafNode): Source | undefined {
  if (node.member.size > SMALL_BYTES) return undefined
  try {
    const bytes = readMemberNow(archive, node, { maxBytes: SMALL_BYTES })
    return bytes === undefined ? undefined : new MemorySource(bytes)
  } catch {
    // `openLeaf` finds it again, and tells what it is.
    return undefined
  }
}

class MemorySource implements Source {
  readonly #bytes: Buffer

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  length(): Promise<number> {
    return Promise.resolve(this.#bytes.length)
  }

  read(buffer: Uint8Array, position: number): Promise<number> {
    return Promise.resolve(this.readNow(buffer, position))
  }

  readNow(buffer: Uint8Array, position: number): number {
    if (position >= this.#bytes.length) return 0
    return this.#bytes.copy(buffer, 0, position, position + buffer.length)
  }

  close(): void {
    // Nothing is held but memory.
  }
}
