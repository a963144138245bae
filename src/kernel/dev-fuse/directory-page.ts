import type { Attributes } from '../../drive/tree/attributes.ts'
import { TYPE_BITS } from '../stats.ts'
import { DIRENT, ENTRY_OUT } from './structures.ts'

const ALIGNMENT = 8
/** File types of a directory entry are those of a mode, without its permissions. */
const TYPE_SHIFT = 12
/** libfuse's own "unknown": programs take the number from stat. */
const UNKNOWN_INODE = 0xffff_ffff

/** A name as the kernel gets it. */
export interface PageEntry {
  readonly name: string
  readonly kind: Attributes['kind'] | undefined
  readonly inode?: number
  /** Where to go on behind it. */
  readonly offset: number
}

/** A piece of a directory: as many names as the kernel has room for. */
export class DirectoryPage {
  readonly #bytes: Buffer
  #used = 0

  constructor(size: number) {
    this.#bytes = Buffer.alloc(size)
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#used)
  }

  /** False when it is full. */
  add(entry: PageEntry): boolean {
    return this.#add(entry, 0)
  }

  /** As `add`, with what READDIRPLUS tells of the name, which `tell` writes; without it the kernel will ask. */
  addPlus(named: PageEntry, tell: ((bytes: Buffer, start: number) => void) | undefined): boolean {
    const start = this.#used
    if (!this.#add(named, ENTRY_OUT.size)) return false
    tell?.(this.#bytes, start)
    return true
  }

  #add({ name, kind, inode = UNKNOWN_INODE, offset }: PageEntry, before: number): boolean {
    const nameLength = Buffer.byteLength(name)
    const length = before + DIRENT.size + nameLength
    const padded = Math.ceil(length / ALIGNMENT) * ALIGNMENT
    if (this.#used + padded > this.#bytes.length) return false
    const at = this.#used + before
    const type = kind === undefined ? 0 : TYPE_BITS[kind] >> TYPE_SHIFT
    DIRENT.encodeInto({ ino: inode, offset, nameLength, type }, this.#bytes, at)
    this.#bytes.write(name, at + DIRENT.size)
    this.#used += padded
    return true
  }
}
