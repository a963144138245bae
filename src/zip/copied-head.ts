import { keptOf } from '../domain/attributes.ts'
import { memberMode, memberName } from './plan.ts'
import type { PlanContent, PlanItem } from './plan.ts'
import { readExactly } from './source.ts'
import type { MemberHead } from './zip-encode.ts'
import { FLAG, isEncrypted, LENGTH, MAX_32, METHOD } from './zip-format.ts'
import type { ZipMember } from './zip-format.ts'
import { extraFields } from './zip-parse.ts'

/** Flags that belong to the data: options of the method, and how it is encrypted. */
const METHOD_FLAGS = 0x0006
const ENCRYPTION_FLAGS = 0x0041

/** Extra fields without which data cannot be read (AES, strong encryption), and their longest bodies. */
const DATA_FIELDS: ReadonlyMap<number, number> = new Map([
  [0x9901, 64],
  [0x0017, 4096],
])

/** The head of a member whose data is copied as it is, under the name, mode and time of `item`. */
export async function copiedHead(
  item: PlanItem,
  content: Extract<PlanContent, { from: 'archive' }>,
  signal: AbortSignal | undefined,
): Promise<MemberHead> {
  const { member } = content.node
  const isPlain =
    !isEncrypted(member) &&
    (member.method === METHOD.uncompressed || member.method === METHOD.deflated)
  const head: MemberHead = {
    ...keptOf(item),
    name: memberName(item),
    mode: memberMode(item),
    method: member.method,
    flags: FLAG.utf8 | (member.flags & METHOD_FLAGS),
    versionNeeded: member.versionNeeded,
    zip64: Math.max(member.size, member.compressedSize) >= MAX_32,
    measure: member,
  }
  if (isPlain) return head
  const extra = await dataFields(content, signal)
  if (!isEncrypted(member)) return { ...head, extra }
  // The old encryption checks its password against the CRC, or, with a descriptor, the time.
  const flags = head.flags | (member.flags & (ENCRYPTION_FLAGS | FLAG.descriptor))
  return { ...head, flags, extra, dosTime: member.dosTime }
}

async function dataFields(
  content: Extract<PlanContent, { from: 'archive' }>,
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  const record = await readRecord(content, signal)
  const nameEnd = LENGTH.central + record.readUInt16LE(28)
  const kept: Buffer[] = []
  for (const field of extraFields(record.subarray(nameEnd, nameEnd + record.readUInt16LE(30)))) {
    if (field.body.length <= (DATA_FIELDS.get(field.tag) ?? -1)) kept.push(field.whole)
  }
  return Buffer.concat(kept.slice(0, DATA_FIELDS.size))
}

/** The member's central record up to its extra fields; its position was right when the tree was read. */
async function readRecord(
  content: Extract<PlanContent, { from: 'archive' }>,
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  const { source } = content.archive
  const { recordPosition }: ZipMember = content.node.member
  const fixed = await readExactly(source, recordPosition, LENGTH.central, signal)
  const length = LENGTH.central + fixed.readUInt16LE(28) + fixed.readUInt16LE(30)
  return readExactly(source, recordPosition, length, signal)
}
