import { NOTHING } from './base.ts'
import type { DeleteIntent, PutIntent } from './intent.ts'

type Given<Kind extends PutIntent | DeleteIntent> = Omit<
  Kind,
  'version' | 'kind' | 'phase' | 'replaces' | 'supersedes'
> &
  Partial<Kind>

/** A new put: waiting, and in the place of nothing, unless it is told otherwise. */
export function newPut(given: Given<PutIntent>): PutIntent {
  return { phase: 'waiting', ...NOTHING, ...given, version: 1, kind: 'put' }
}

/** The delete of what a put of a folder was to take the place of, which is not to be stored: nothing is in it any more. */
export function deleteOfEmptied(
  { name, replaces, deleted, uploaded, after }: PutIntent,
  given: Pick<DeleteIntent, 'id' | 'createdAtMs'>,
): DeleteIntent {
  return newDelete({
    ...given,
    name,
    replaces,
    ...(deleted === undefined ? {} : { deleted }),
    ...(uploaded === undefined ? {} : { uploaded }),
    ...(after === undefined ? {} : { after }),
  })
}

/** A new delete: waiting, and of nothing, unless it is told otherwise. */
export function newDelete(given: Given<DeleteIntent>): DeleteIntent {
  return { phase: 'waiting', ...NOTHING, ...given, version: 1, kind: 'delete' }
}
