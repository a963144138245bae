import { readdirSync } from 'node:fs'
import fc from 'fast-check'
import { afterEach, describe, expect, it } from 'vitest'
import type { BagReader } from '../../../src/content/bag-reader.ts'
import { isDriveError } from '../../../src/domain/errors.ts'
import type { BagCache } from '../../../src/content/bag-cache.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, setUp, sha256 } from './fake-downloads.ts'
import type { Fault, Setup } from './fake-downloads.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(cleanUp)

const MIB = 1024 * 1024
const BAGS = ['0', '1', '2'].map(id)
/** Larger than the distance that counts as a far seek, of one chunk, and empty. */
const CONTENTS = [noiseOf(11 * MIB, 1), noiseOf(50_000, 2), noiseOf(0)]

const fraction = fc.double({ min: 0, max: 1.1, noNaN: true })
const step = fc.oneof(
  fc.record({
    do: fc.constant('read' as const),
    bag: fc.nat(2),
    reader: fc.nat(2),
    at: fraction,
    length: fc.nat(400_000),
  }),
  fc.record({ do: fc.constant('close' as const), bag: fc.nat(2), reader: fc.nat(2) }),
  fc.record({
    do: fc.constantFrom('grace' as const, 'clear' as const, 'restart' as const, 'settle' as const),
  }),
)
const fault: fc.Arbitrary<Fault | undefined> = fc.option(
  fc.oneof(fc.record({ cutAfter: fc.nat(6 * MIB) }), fc.record({ endAfter: fc.nat(6 * MIB) })),
  { nil: undefined },
)

const plan = fc.record({
  steps: fc.array(step, { minLength: 5, maxLength: 30 }),
  faults: fc.array(fault, { maxLength: 12 }),
  ranges: fc.boolean(),
  announcesRanges: fc.boolean(),
  length: fc.boolean(),
  knowsSums: fc.boolean(),
  maxBytes: fc.constantFrom(20 * MIB, 6 * MIB, 40_000),
  floorReached: fc.boolean(),
  streams: fc.constantFrom(1, 4),
})

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never
type Plan = typeof plan extends fc.Arbitrary<infer Value> ? Value : never

/** A drive of three bags under a plan, with its readers by name. */
class Run {
  readonly #setup: Setup
  readonly #pending: Promise<boolean>[] = []
  readonly #readers = new Map<string, BagReader>()
  #cache: BagCache

  constructor(setup: Setup) {
    this.#setup = setup
    this.#cache = setup.cache
  }

  async take(each: Step): Promise<void> {
    switch (each.do) {
      case 'read':
        this.#read(each)
        return
      case 'close':
        this.#readers.get(nameOf(each))?.close()
        this.#readers.delete(nameOf(each))
        return
      case 'grace':
        this.#setup.clock.advance(5000)
        return
      case 'clear':
        await this.#cache.clear()
        return
      case 'settle':
        await Promise.all(this.#pending)
        return
      case 'restart':
        await Promise.all(this.#pending)
        await this.#cache.close()
        this.#readers.clear()
        this.#cache = await this.#setup.reopen()
    }
  }

  /** Resolves with the number of reads that gave bytes. */
  async end(): Promise<number> {
    const outcomes = await Promise.all(this.#pending)
    for (const reader of this.#readers.values()) reader.close()
    await this.#cache.close()
    return outcomes.filter(Boolean).length
  }

  #read(each: Extract<Step, { do: 'read' }>): void {
    const reader = this.#readers.get(nameOf(each)) ?? this.#cache.open(BAGS[each.bag] ?? id('0'))
    this.#readers.set(nameOf(each), reader)
    const content = CONTENTS[each.bag] ?? new Uint8Array()
    const position = Math.floor(each.at * content.length)
    this.#pending.push(check(reader, content, position, each.length))
  }
}

function nameOf(each: { readonly bag: number; readonly reader: number }): string {
  return `${each.bag}/${each.reader}`
}

/** Runs a plan; every read that succeeds must give the true bytes. Returns how many did. */
async function run(what: Plan): Promise<number> {
  const setup = await setUp({
    ...what,
    settings: { maxBytes: what.maxBytes, minFreeBytes: 1 },
    freeBytes: () => Promise.resolve(what.floorReached ? 0 : 1e12),
  })
  for (const [index, bag] of BAGS.entries()) {
    const content = CONTENTS[index] ?? new Uint8Array()
    setup.service.contents.set(bag, content)
    if (what.knowsSums) setup.facts.learn(bag, { sha256: sha256(content) })
  }
  // Without a length, a body that ends too early looks like a whole one.
  const faults = what.faults.filter((each) => what.length || each?.endAfter === undefined)
  setup.service.faults.push(...faults)
  const drive = new Run(setup)
  for (const each of what.steps) await drive.take(each)
  return drive.end()
}

/** True when the read gave the true bytes, false when it failed as a closed reader's read may. */
async function check(
  reader: BagReader,
  content: Uint8Array,
  position: number,
  length: number,
): Promise<boolean> {
  const buffer = Buffer.alloc(length)
  let count: number
  try {
    count = await reader.read(buffer, position)
  } catch (error) {
    // Four tries without a byte of progress in a row are a failure that a reader may see.
    if (isDriveError(error, 'unavailable')) return false
    throw error
  }
  const wanted = content.subarray(position, position + length)
  expect(count).toBe(wanted.length)
  expect(buffer.subarray(0, count).equals(wanted)).toBe(true)
  return true
}

const openFiles = (): number => readdirSync('/proc/self/fd').length

describe('any reads by any readers', () => {
  it('give the true bytes, with cuts, seeks, evictions and restarts', async () => {
    const before = openFiles()
    let reads = 0
    await fc.assert(
      fc.asyncProperty(plan, async (what) => {
        reads += await run(what)
        await cleanUp()
      }),
      { numRuns: 60, endOnFailure: true },
    )
    expect(reads).toBeGreaterThan(200)
    await eventually(() => {
      expect(openFiles()).toBe(before)
    })
  }, 120_000)
})
