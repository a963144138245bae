import { describe, expect, it } from 'vitest'
import type { Intent } from '../../../src/intents/intent.ts'
import { forgetInOrder } from '../../../src/intents/forget-in-order.ts'
import { buildTree } from '../../../src/namespace/tree.ts'
import { bag, put, remove } from '../namespace/builders.ts'

const done = { phase: 'confirmed', confirmedAtMs: 1 } as const
const stored = (
  number: number,
  name: string,
  bagNumber: number,
  replaced: readonly number[] = [],
) =>
  put(number, name, {
    ...done,
    bagId: bag(bagNumber),
    replaces: replaced.map(bag),
    replacedAreDeleted: true,
  })
/** Written twice and removed; and another file, of which nothing else knows. */
const INTENTS: readonly Intent[] = [
  stored(1, 'a', 1),
  stored(2, 'a', 2, [1]),
  remove(3, [bag(2)], done),
  stored(4, 'b', 4),
]

describe('forgetting finished changes', () => {
  it('brings nothing back in between, however long each takes', async () => {
    const left = new Set(INTENTS)
    const shown: string[][] = []
    await forgetInOrder(INTENTS, async (intent) => {
      // The newest are the quickest.
      for (let turns = 20 - 4 * INTENTS.indexOf(intent); turns > 0; turns -= 1)
        await Promise.resolve()
      left.delete(intent)
      shown.push([...buildTree(undefined, [...left]).entries()].map((entry) => entry.shown))
      return true
    })
    expect(shown).toHaveLength(4)
    expect(shown.flat().filter((name) => name !== 'b')).toEqual([])
    expect(left.size).toBe(0)
  })

  it('keeps who took the place of one that stays, also where no bag tells of it', async () => {
    const old = stored(1, 'a', 1)
    const asked: Intent[] = []
    await forgetInOrder([old, { ...stored(2, 'a', 2), supersedes: [old.id] }], (intent) => {
      asked.push(intent)
      return Promise.resolve(false)
    })
    expect(asked).toEqual([old])
  })

  it('keeps what hides one that stays', async () => {
    const asked: Intent[] = []
    await forgetInOrder(INTENTS, (intent) => {
      asked.push(intent)
      return Promise.resolve(intent !== INTENTS[1])
    })
    expect(asked).not.toContain(INTENTS[2])
    expect(asked).toContain(INTENTS[3])
  })
})
