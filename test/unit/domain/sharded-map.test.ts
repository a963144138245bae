import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ShardedMap } from '../../../src/domain/sharded-map.ts'

const key = fc.oneof(fc.string(), fc.constantFrom('one', 'two', 'document 1', 'document 2'))
const step = fc.oneof(
  fc.record({ what: fc.constant('set' as const), key, value: fc.integer() }),
  fc.record({ what: fc.constant('delete' as const), key }),
)

it('holds what a map holds', () => {
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const map = new Map<string, number>()
      const sharded = new ShardedMap<string, number>()
      for (const one of steps) {
        if (one.what === 'set') {
          map.set(one.key, one.value)
          sharded.set(one.key, one.value)
        } else {
          map.delete(one.key)
          sharded.delete(one.key)
        }
        expect(sharded.size).toBe(map.size)
        expect(sharded.has(one.key)).toBe(map.has(one.key))
        expect(sharded.get(one.key)).toBe(map.get(one.key))
      }
      expect(new Map(sharded)).toEqual(map)
      expect(new Set(sharded.keys())).toEqual(new Set(map.keys()))
    }),
  )
})

it('spreads names that differ in a number only', () => {
  const sharded = new ShardedMap<string, number>()
  const names = Array.from({ length: 512 }, (_, number) => `document ${number} of many.txt`)
  for (const [number, name] of names.entries()) sharded.set(name, number)
  // In few shards they would come out as they went in.
  const shown = [...sharded.keys()]
  const inOrder = shown.filter((name, at) => name === names[at])
  expect(inOrder.length).toBeLessThan(names.length / 8)
})
