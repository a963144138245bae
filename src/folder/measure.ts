import { throwIfAborted } from './abort.ts'
import { knownHead } from './pack.ts'
import type { PlanItem } from './plan.ts'
import type { EntryHead } from './zip-encode.ts'
import { centralRecord, dataDescriptor, endRecords, localHeader } from './zip-encode.ts'
import { FLAG } from './zip-format.ts'

/** Entries that are measured in a row, before everything else has its turn. */
const IN_A_ROW = 500

/**
 * Bytes that the zip of a plan will have (see `writeArchive`); undefined when that shows only once it is
 * written, as with large content that is to be deflated. Reads and deflates small local files, copies nothing.
 * @throws DriveError as `writeArchive`
 */
export async function measureArchive(
  plan: readonly PlanItem[],
  signal?: AbortSignal,
): Promise<number | undefined> {
  let offset = 0
  let directorySize = 0
  for (const [index, item] of plan.entries()) {
    throwIfAborted(signal)
    if (index % IN_A_ROW === 0) await nextTurn()
    const head = await knownHead(item, signal)
    if (head === undefined) return undefined
    directorySize += centralRecord(head, offset).length
    offset += entryLength(head, offset)
  }
  const end = endRecords({ count: plan.length, size: directorySize, offset })
  return offset + directorySize + end.length
}

function entryLength(head: EntryHead, offset: number): number {
  const after = (head.flags & FLAG.descriptor) === 0 ? 0 : dataDescriptor(head).length
  return localHeader(head, offset).length + head.measure.compressedSize + after
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
