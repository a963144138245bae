import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What comes in the end may take its time on a machine that is busy: this and all limits are against hanging only. */
const expect = { poll: { timeout: 120_000 } }

/**
 * A shell that a test starts runs no start-up file of whoever runs the tests. Bash takes the socket that Node gives it
 * as input for a login from afar, and reads ~/.bashrc, unless another shell has started it.
 */
const env = { BASH_ENV: '', SHLVL: '1' }

/** Three files at a time on the smallest machine, which has two processors: a mount test waits half of its time. */
const threeAtATime = { maxWorkers: 3 }

/** What takes minutes; without figures of an earlier run, vitest would begin with the largest files. */
const LONGEST = [
  'mount/crash',
  'model/drive',
  'mount/two-drives',
  'mount/replacing',
  'unit/drive/hostile',
  'mount/two-machines',
  'mount/status',
  'mount/folder-base-gone',
  'mount/service-crash',
]

/** The longest files first, so that all workers end at about the same time. */
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
          ...threeAtATime,
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
          ...threeAtATime,
          include: ['test/model/**/*.test.ts'],
        },
      },
      {
        test: {
          name: 'mount',
          expect,
          env,
          ...threeAtATime,
          include: ['test/mount/**/*.test.ts'],
          testTimeout: 1_200_000,
          hookTimeout: 1_200_000,
        },
      },
    ],
  },
})
