import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseAccount, parseListing, parseUploaded } from '../../../src/service/answers.ts'

const record = (over: object): unknown => ({
  filename: 'a.txt',
  size: 12,
  uploaded_at: 1_700_000_000.5,
  description: 'about',
  bag_id: 'b1',
  ...over,
})
const first = (over: object): unknown => parseListing([record(over)]).records[0]

describe('a listing', () => {
  it('keeps what docs/SERVICE.md names and ignores the rest', () => {
    expect(first({ color: 'red' })).toEqual({
      bagId: 'b1',
      name: 'a.txt',
      size: 12,
      uploadedAtMs: 1_700_000_000_500,
      description: 'about',
    })
  })

  it.each([-1, undefined, null, 'NaN', 1.5, 2 ** 60, '-3', 'big', {}, true])(
    'has no size when it says %j',
    (size) => {
      expect(first({ size })).toMatchObject({ size: undefined })
    },
  )

  it('takes numbers given as text', () => {
    expect(first({ size: '42', uploaded_at: ' 1.7e9 ' })).toMatchObject({
      size: 42,
      uploadedAtMs: 1_700_000_000_000,
    })
  })

  it('takes a time above 1e11 for milliseconds and a useless one for 0', () => {
    expect(first({ uploaded_at: 1_700_000_000_123 })).toMatchObject({
      uploadedAtMs: 1_700_000_000_123,
    })
    for (const uploaded_at of [-5, null, 'yesterday', 1e300]) {
      expect(first({ uploaded_at })).toMatchObject({ uploadedAtMs: 0 })
    }
  })

  it('has an empty description when there is none, and the id as name of the nameless', () => {
    expect(first({ description: undefined, filename: null })).toMatchObject({
      description: '',
      name: 'b1',
    })
  })

  it('leaves names as they are', () => {
    for (const filename of ['', '..', 'a/b', 'nul\0', '🙂', 'x'.repeat(300)]) {
      expect(first({ filename })).toMatchObject({ name: filename })
    }
  })

  it('skips a record that cannot be used and names it', () => {
    const bad = [record({ bag_id: '', filename: 'lost.txt' }), null, record({ filename: [1] }), 7]
    const listing = parseListing([...bad, record({})])
    expect(listing.records).toHaveLength(1)
    expect(listing.skipped.map(({ index, name }) => ({ index, name }))).toEqual([
      { index: 0, name: 'lost.txt' },
      { index: 1, name: 'null' },
      { index: 2, name: 'b1' },
      { index: 3, name: '7' },
    ])
    for (const { reason } of listing.skipped) expect(reason).not.toBe('')
  })

  it('reads a size of any length without holding anybody up', () => {
    const startedAt = performance.now()
    for (const size of [`${'1'.repeat(50_000)}x`, `${'1'.repeat(50_000)}.x`, '1e'.repeat(50_000)]) {
      expect(first({ size, uploaded_at: size })).toMatchObject({ size: undefined, uploadedAtMs: 0 })
    }
    // A pattern that tries each way to split the digits takes minutes.
    expect(performance.now() - startedAt).toBeLessThan(60_000)
  })

  it('skips a record whose id or name nothing could be done with, and cuts an endless description', () => {
    const skipped = parseListing([
      record({ bag_id: 'b\ud800' }),
      record({ bag_id: 'b'.repeat(1025) }),
      record({ filename: 'n'.repeat(65_537) }),
    ])
    expect(skipped).toMatchObject({ records: [], skipped: [{}, {}, {}] })
    expect(Math.max(...skipped.skipped.map(({ name }) => name.length))).toBeLessThan(300)
    const description = 'd'.repeat(70_000)
    expect(first({ bag_id: 'b'.repeat(1024), filename: 'n'.repeat(65_536), description })).toEqual({
      ...(first({}) as object),
      bagId: 'b'.repeat(1024),
      name: 'n'.repeat(65_536),
      description: 'd'.repeat(65_536),
    })
  })

  it('takes any JSON without a crash and accounts for every element', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (items) => {
        const { records, skipped } = parseListing(items)
        expect(records.length + skipped.length).toBe(items.length)
      }),
    )
  })
})

describe('the other answers', () => {
  it('reads an account, with numbers as text, and bounds what is left at 0', () => {
    const account = { uid: 'u', space_left: -3, capacity: '1e9' }
    expect(parseAccount(account)).toEqual({ uid: 'u', spaceLeft: 0, capacity: 1e9 })
  })

  it('refuses an account that lacks something and an upload without an id', () => {
    expect(parseAccount({ uid: 'u', space_left: 1 })).toBeUndefined()
    expect(parseAccount({ uid: 'u', space_left: 'Infinity', capacity: 1 })).toBeUndefined()
    expect(parseUploaded({ bag_id: '' })).toBeUndefined()
    expect(parseUploaded({ bag_id: 'b' })).toBe('b')
    expect(parseUploaded({ bag_id: 'b\udc00' })).toBeUndefined()
  })
})
