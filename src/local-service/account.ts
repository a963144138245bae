import type { FileRecordWire } from '../service/wire.ts'
import type { ReceivableRoom } from './incoming.ts'

export type UploadKind = 'file' | 'folder'

/** A bag as an account holds it. */
export interface HeldBag {
  readonly kind: UploadKind
  readonly record: FileRecordWire
}

/** The bags of one account in memory, and how much of its capacity they take. */
export class ServedAccount {
  readonly uid: string
  readonly capacityBytes: number
  readonly #bags = new Map<string, HeldBag>()
  #usedBytes = 0
  /** The listing as JSON, until something changes; 100,000 records are costly to write out. */
  #listing: string | undefined

  constructor(uid: string, capacityBytes: number) {
    this.uid = uid
    this.capacityBytes = capacityBytes
  }

  get(bagId: string): HeldBag | undefined {
    return this.#bags.get(bagId)
  }

  records(): FileRecordWire[] {
    return Array.from(this.#bags.values(), (bag) => bag.record)
  }

  bagIds(): IterableIterator<string> {
    return this.#bags.keys()
  }

  listingJson(): string {
    this.#listing ??= JSON.stringify(this.records())
    return this.#listing
  }

  spaceLeftBytes(): number {
    return Math.max(0, this.capacityBytes - this.#usedBytes)
  }

  /**
   * What is worth receiving under `name`. A bag that is here already takes no more space, and
   * whether an upload is one is known only at its end.
   */
  receivable(name: string): ReceivableRoom {
    const leftBytes = this.spaceLeftBytes()
    let mostBytes = leftBytes
    for (const { record } of this.#bags.values()) {
      if (record.filename === name && record.size > mostBytes) mostBytes = record.size
    }
    return { mostBytes, leftBytes }
  }

  /** Counts bytes of a bag that is about to be held, so that two uploads cannot share the last space. */
  reserve(bytes: number): boolean {
    if (bytes > this.spaceLeftBytes()) return false
    this.#usedBytes += bytes
    return true
  }

  release(bytes: number): void {
    this.#usedBytes -= bytes
  }

  /** Holds a bag whose bytes are reserved, or renews its record. */
  hold(bag: HeldBag): void {
    this.#bags.set(bag.record.bag_id, bag)
    this.#listing = undefined
  }

  /** Forgets a bag and releases its bytes. */
  drop(bag: HeldBag): void {
    if (!this.#bags.delete(bag.record.bag_id)) return
    this.release(bag.record.size)
    this.#listing = undefined
  }

  /** Holds a bag found on disk, even where the capacity has shrunk since. */
  restore(bag: HeldBag): void {
    this.#usedBytes += bag.record.size
    this.hold(bag)
  }
}
