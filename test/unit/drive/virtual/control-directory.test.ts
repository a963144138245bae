import { describe, expect, it } from 'vitest'
import { nameContents } from '../../../../src/drive/virtual/control-directory.ts'
import { intentId, put, remove } from '../../namespace/builders.ts'

describe('names in .bagfs/outbox', () => {
  it('are those of the contents, the newest plain and older ones with their ids', () => {
    const named = nameContents([put(1, 'a.txt'), put(2, 'b.txt'), put(3, 'a.txt')])
    expect([...named].map(([name, { id }]) => [name, id])).toEqual([
      ['a.txt', intentId(3)],
      ['b.txt', intentId(2)],
      [`a (${intentId(1)}).txt`, intentId(1)],
    ])
  })

  it('are names that Linux can have', () => {
    const [slash, long] = nameContents([put(1, 'x'.repeat(400)), put(2, '../../etc/passwd')]).keys()
    expect(slash).not.toContain('/')
    expect(Buffer.byteLength(long ?? '')).toBeLessThanOrEqual(255)
  })

  it('leave out what has no content here: deletes, what is stored, folders not packed yet', () => {
    const intents = [
      remove(1, []),
      put(2, 'stored.txt', { phase: 'confirmed' }),
      put(3, 'folder', { content: { from: 'folder' } }),
    ]
    expect([...nameContents(intents).keys()]).toEqual([])
  })
})
