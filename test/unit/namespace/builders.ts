import { createHash } from 'node:crypto'
import { toBagId, type BagId, type IntentId } from '../../../src/domain/ids.ts'
import { newDelete, newPut } from '../../../src/intents/builders.ts'
import type { DeleteIntent, PutIntent } from '../../../src/intents/intent.ts'
import type { BagRecord } from '../../../src/domain/record.ts'

/** A bag id of 64 hex digits made from a number. */
export function bag(number: number): BagId {
  return toBagId(createHash('sha256').update(String(number)).digest('hex'))
}

export function record(bagId: BagId, name: string, uploadedAtMs = 0): BagRecord {
  return { bagId, name, size: 1, uploadedAtMs, description: '' }
}

export function intentId(number: number): IntentId {
  return `i${String(number).padStart(9, '0')}` as IntentId
}

export function put(number: number, name: string, rest: Partial<PutIntent> = {}): PutIntent {
  return newPut({
    id: intentId(number),
    name,
    createdAtMs: 0,
    description: '',
    mode: 0o644,
    mtimeMs: 0,
    content: { from: 'staged', length: 1, sha256: '' },
    ...rest,
  })
}

export function remove(
  number: number,
  replaces: readonly BagId[],
  rest: Partial<DeleteIntent> = {},
): DeleteIntent {
  return newDelete({ id: intentId(number), name: 'x', createdAtMs: 0, replaces, ...rest })
}
