import type { BagTime, PutIntent } from './intent.ts'
import { isAnswered, isUnproven } from './rules.ts'
import { withoutClaim } from './transitions.ts'

/** The uploads that a put made under names that it had before, and that the service may have: each as the put was then. */
export function lostUploadsOf(put: PutIntent): readonly PutIntent[] {
  const { lostUploads = [] } = put
  return lostUploads.map((upload) => ({ ...put, ...upload, phase: 'waiting' }))
}

/** What the service may have of a put under the name that it has until now, and under those before. */
export function lostWhenRenamed(put: PutIntent): Pick<PutIntent, 'lostUploads'> {
  const { name, description, content, sentAtMs, namesakes = [], lostUploads = [] } = put
  if (content.from !== 'staged' || sentAtMs === undefined || !isUnproven(put) || isAnswered(put)) {
    return {}
  }
  return { lostUploads: [...lostUploads, { name, description, content, sentAtMs, namesakes }] }
}

/**
 * It is known what became of one of them: what was stored is a bag to delete, and was uploaded then. What the put had to do
 * with a bag of that id before is over.
 */
export function withLostFound(put: PutIntent, lost: PutIntent, found?: BagTime): PutIntent {
  const { lostUploads = [], ...rest } = found === undefined ? put : withoutClaim(put, found.bagId)
  const left = lostUploads.filter(
    ({ name, sentAtMs }) => name !== lost.name || sentAtMs !== lost.sentAtMs,
  )
  return {
    ...rest,
    ...(left.length === 0 ? {} : { lostUploads: left }),
    ...(found !== undefined && {
      replaces: [...rest.replaces, found.bagId],
      uploaded: [...(rest.uploaded ?? []), found],
    }),
  }
}
