import type { BagId } from '../domain/ids.ts'
import { joined } from './base.ts'
import { withAfter, withUploads, type Replaced } from './claims.ts'
import { without } from './fields.ts'
import type { PutIntent } from './intent.ts'
import { lostWhenRenamed } from './lost-uploads.ts'
import { collecting } from './rounds.ts'
import { isTaken } from './rules.ts'

/** A put that was not sent yet gets another name, and takes the place of more. */
export function renamed(
  put: PutIntent,
  name: string,
  phase: Pick<PutIntent, 'phase' | 'heldUntilMs' | 'sentAtMs'>,
  base: Replaced,
): PutIntent {
  const fresh = without(put, 'heldUntilMs', 'sentAtMs', 'failure')
  return {
    ...fresh,
    name,
    ...phase,
    ...joined(put, base),
    ...withUploads(put, base.uploaded),
    ...withAfter(put, base.after),
  }
}

/** What a put that waits was before it got another name, and the bag that had the new one. */
export interface BeforeRename {
  readonly put: PutIntent
  readonly replaced: BagId | undefined
}

/** True when a rename took the place of nothing but the put as it was and the bag that had the new name. */
export function isOnlyRenamed(renamed: PutIntent, { put, replaced }: BeforeRename): boolean {
  const bags = renamed.replaces.filter((each) => !put.replaces.includes(each))
  const puts = renamed.supersedes.filter((each) => !put.supersedes.includes(each))
  return puts.every((each) => each === put.id) && bags.every((each) => each === replaced)
}

/** A rename is taken back, unless the service took the put meanwhile: it has its old name, and takes the place of what it took before. */
export function renameTakenBack(latest: PutIntent, { put, replaced }: BeforeRename): PutIntent {
  if (latest.phase !== 'waiting' || isTaken(latest)) return latest
  const { name, phase, heldUntilMs, namesakes } = put
  const isOfRename = (bagId: BagId): boolean => bagId === replaced && !put.replaces.includes(bagId)
  const { uploaded } = latest
  return {
    ...latest,
    ...{ name, phase },
    replaces: latest.replaces.filter((each) => !isOfRename(each)),
    ...(uploaded && { uploaded: uploaded.filter(({ bagId }) => !isOfRename(bagId)) }),
    ...(heldUntilMs === undefined ? {} : { heldUntilMs }),
    ...(namesakes === undefined ? {} : { namesakes }),
  }
}

/** What is in a folder is packed anew under its new name; an empty one stays on this machine. */
export function renamedFolder(put: PutIntent, name: string, base: Replaced): PutIntent {
  const phase = put.phase === 'local' ? 'local' : 'waiting'
  return {
    ...collecting(put),
    ...lostWhenRenamed(put),
    name,
    phase,
    ...joined(put, base),
    ...withUploads(put, base.uploaded),
    ...withAfter(put, base.after),
  }
}
