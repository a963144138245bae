import type { Intent } from './intent.ts'

/** Fields that an intent has for a while only. */
type Passing =
  | 'failure'
  | 'heldUntilMs'
  | 'sentAtMs'
  | 'bagId'
  | 'uploadedAtMs'
  | 'isAtRisk'
  | 'lookAtMs'
  | 'answeredAtMs'
  | 'confirmedAtMs'
  | 'replacedAreDeleted'
  | 'after'
  | 'disproofs'
  | 'ownUploads'
  | 'movesOn'
  | 'restores'
  | 'restoresSha256'

/** What tells of the zip that a folder's round ends with. */
export const OF_A_ROUND = [
  'bagId',
  'uploadedAtMs',
  'isAtRisk',
  'lookAtMs',
  'sentAtMs',
  'answeredAtMs',
  'confirmedAtMs',
  'replacedAreDeleted',
  'ownUploads',
] as const satisfies readonly Passing[]

/** What tells of what a put brings back from the trash. */
export const OF_RESTORE = ['restores', 'restoresSha256'] as const satisfies readonly Passing[]

export function without<Kind extends Intent>(intent: Kind, ...fields: readonly Passing[]): Kind {
  const copy = { ...intent }
  for (const field of fields) Reflect.deleteProperty(copy, field)
  return copy
}
