import type { PutIntent } from './intent.ts'
import { isAnswered, isUnproven } from './rules.ts'

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
