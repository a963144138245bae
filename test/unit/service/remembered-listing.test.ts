import { expect, it } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import type { BagRecord } from '../../../src/domain/record.ts'
import { RememberedListing } from '../../../src/service/remembered-listing.ts'

const record = (name: string): BagRecord => {
  return { bagId: toBagId('a'.repeat(64)), name, size: 1, uploadedAtMs: 0, description: '' }
}

it('reads an answer once for as long as the service says the same', () => {
  const remembered = new RememberedListing()
  const read: string[] = []
  const ask = (body: string): readonly BagRecord[] =>
    remembered.read(Buffer.from(body), () => {
      read.push(body)
      return [record(body)]
    })
  const first = ask('one')
  expect(ask('one')).toBe(first)
  expect(ask('two')).toEqual([record('two')])
  expect(ask('one')).toEqual([record('one')])
  expect(read).toEqual(['one', 'two', 'one'])
})

it('an answer that cannot be read leaves the one before', () => {
  const remembered = new RememberedListing()
  const before = remembered.read(Buffer.from('one'), () => [record('one')])
  const failing = (): never => {
    throw new Error('no list')
  }
  expect(() => remembered.read(Buffer.from('two'), failing)).toThrow('no list')
  expect(remembered.read(Buffer.from('one'), failing)).toBe(before)
})
