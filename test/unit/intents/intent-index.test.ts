import fc from 'fast-check'
import { expect, it } from 'vitest'
import { IntentIndex } from '../../../src/intents/intent-index.ts'
import type { Intent } from '../../../src/intents/intent.ts'
import { bag, intentId, put, remove } from '../namespace/builders.ts'

const NUMBERS = [1, 2, 3, 4]
const NAMES = ['a', 'b']

const bags = fc.uniqueArray(fc.constantFrom(...NUMBERS).map(bag), { maxLength: 2 })
const number = fc.constantFrom(...NUMBERS)
const name = fc.constantFrom(...NAMES)

const aPut = fc
  .record({ n: number, name, replaces: bags, given: fc.option(number), source: fc.option(number) })
  .map(({ n, name: called, replaces, given, source }): Intent =>
    put(n, called, {
      replaces,
      ...(given === null ? {} : { bagId: bag(given) }),
      ...(source === null ? {} : { content: { from: 'bag', bagId: bag(source) } }),
    }),
  )
const aRemoval = fc
  .record({ n: number, name, replaces: bags })
  .map(({ n, name: called, replaces }): Intent => remove(n, replaces, { name: called }))
const step = fc.oneof(aPut, aRemoval, number)

it('finds intents by name and by bag as a look at all of them does, oldest first', () => {
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const index = new IntentIndex()
      for (const each of steps) {
        if (typeof each === 'number') index.delete(intentId(each))
        else index.set(each)
      }
      for (const called of NAMES) {
        expect(index.named(called)).toEqual(index.intents().filter((each) => each.name === called))
      }
      for (const bagId of NUMBERS.map(bag)) {
        const isOfBag = (each: Intent): boolean =>
          each.replaces.includes(bagId) ||
          (each.kind === 'put' &&
            (each.bagId === bagId || (each.content.from === 'bag' && each.content.bagId === bagId)))
        expect(index.ofBag(bagId)).toEqual(index.intents().filter(isOfBag))
      }
    }),
  )
})
