import { expect, it } from 'vitest'
import { lostUploadsOf } from '../../../src/intents/lost-uploads.ts'
import { withLostFound } from '../../../src/intents/claims.ts'
import { bag, put } from '../namespace/builders.ts'

const A = bag(1)
const B = bag(2)
const upload = (name: string) =>
  ({
    name,
    description: '',
    content: { from: 'staged', length: 1, sha256: '' },
    sentAtMs: 1,
    namesakes: [],
  }) as const

it('what was stored under another name is to be deleted as it was uploaded, also where an earlier one of its id went', () => {
  const left = put(1, 'c', {
    replaces: [A, B],
    deleted: [{ bagId: B, atMs: 2 }],
    uploaded: [
      { bagId: A, atMs: 3 },
      { bagId: B, atMs: 1 },
    ],
    lostUploads: [upload('a'), upload('b')],
  })
  const [lost = left] = lostUploadsOf(left)
  const found = withLostFound(left, lost, { bagId: B, atMs: 7 })
  expect(found).toEqual({
    ...put(1, 'c'),
    replaces: [A, B],
    deleted: [],
    uploaded: [
      { bagId: A, atMs: 3 },
      { bagId: B, atMs: 7 },
    ],
    lostUploads: [upload('b')],
  })
  const [next = left] = lostUploadsOf(found)
  expect(withLostFound(found, next)).not.toHaveProperty('lostUploads')
})
