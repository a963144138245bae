import fc from 'fast-check'
import type { Who } from './history.ts'

const who = fc.constantFrom<Who>('A', 'B')
const file = fc.constantFrom('a', 'b', 'F/x', 'F/y')
/** Of a token; now and then more than the kernel hands over in one write. */
const bytes = fc.oneof(
  { weight: 12, arbitrary: fc.nat(40) },
  { weight: 4, arbitrary: fc.integer({ min: 41, max: 5_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: 132_000, max: 180_000 }) },
)
const ms = fc.integer({ min: 100, max: 900 })

/** What one program does with a file. */
const change = fc.oneof(
  { weight: 8, arbitrary: fc.record({ op: fc.constant('write' as const), who, file, bytes }) },
  { weight: 9, arbitrary: fc.record({ op: fc.constant('append' as const), who, file, bytes }) },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('replace' as const), who, file, bytes }) },
  {
    weight: 8,
    arbitrary: fc.record({
      op: fc.constant('hold' as const),
      who,
      file,
      flags: fc.constantFrom('a' as const, 'r+' as const),
    }),
  },
  { weight: 9, arbitrary: fc.record({ op: fc.constant('write held' as const), who, bytes }) },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('sync held' as const), who }) },
  { weight: 6, arbitrary: fc.record({ op: fc.constant('let go' as const), who }) },
  { weight: 7, arbitrary: fc.record({ op: fc.constant('rename' as const), who, file, to: file }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('remove' as const), who, file }) },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('restore' as const), who }) },
)
export type Change = typeof change extends fc.Arbitrary<infer One> ? One : never

const step = fc.oneof(
  { weight: 60, arbitrary: change },
  { weight: 12, arbitrary: fc.record({ op: fc.constant('look' as const), who }) },
  // One on each machine at the same time.
  { weight: 16, arbitrary: fc.record({ op: fc.constant('race' as const), a: change, b: change }) },
  // Programs of one machine that append to one file at the same time.
  {
    weight: 7,
    arbitrary: fc.record({
      op: fc.constant('append together' as const),
      who,
      file,
      programs: fc.array(fc.array(bytes, { minLength: 1, maxLength: 3 }), {
        minLength: 2,
        maxLength: 3,
      }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('remount' as const), who }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('kill' as const), who }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('refuse' as const), who, ms }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('slow' as const), who, ms }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('away' as const), who, ms }) },
)
export type Step = typeof step extends fc.Arbitrary<infer One> ? One : never

const run = fc.array(step, { minLength: 6, maxLength: 18 })

/** The steps of so many runs; the same for the same seed. */
export function makeRuns(count: number, seed: number): readonly (readonly Step[])[] {
  return fc.sample(run, { numRuns: count, seed })
}
