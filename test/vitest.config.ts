import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What comes in the end may take its time on a machine that is busy: this and all limits are against hanging only. */
const expect = { poll: { timeout: 120_000 } }

/**
 * A shell that a test starts runs no start-up file of whoever runs the tests. Bash takes the socket that Node gives it
 * as input for a login from afar, and reads ~/.bashrc, unless another shell has started it.
 */
const env = { BASH_ENV: '', SHLVL: '1' }

/** Two files at a time, as the smallest machine has two processors. */
const twoAtATime = { maxWorkers: 2 }

/** What takes minutes; without figures of an earlier run, vitest would begin with the largest files. */
const LONGEST = ['model/drive', 'mount/crash', 'mount/two-drives', 'mount/service-crash']

/** The longest files first, so that both workers end at about the same time. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const place = LONGEST.findIndex((name) => moduleId.endsWith(`${name}.test.ts`))
      return place === -1 ? LONGEST.length : place
    }
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          expect,
          env,
          ...twoAtATime,
          sequence: { groupOrder: 0 },
          include: ['test/unit/**/*.test.ts'],
          setupFiles: ['test/support/properties.ts'],
          testTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'model',
          expect,
          env,
          ...twoAtATime,
          sequence: { groupOrder: 0 },
          include: ['test/model/**/*.test.ts'],
        },
      },
      {
        test: {
          name: 'mount',
          expect,
          env,
          ...twoAtATime,
          sequence: { groupOrder: 1 },
          include: ['test/mount/**/*.test.ts'],
          testTimeout: 1_200_000,
          hookTimeout: 1_200_000,
        },
      },
    ],
  },
})
