import { defineConfig } from 'vitest/config'

/** What comes in the end may take its time on a machine that is busy. */
const expect = { poll: { timeout: 15_000 } }

/**
 * A shell that a test starts runs no start-up file of whoever runs the tests. Bash takes the socket that Node gives it
 * as input for a login from afar, and reads ~/.bashrc, unless another shell has started it.
 */
const env = { BASH_ENV: '', SHLVL: '1' }

/** Two files at a time, before the mount tests. */
const beforeMounts = { maxWorkers: 2, sequence: { groupOrder: 0 } }

/** Mount tests share the kernel and two cores, so their files run one after the other, and alone. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          expect,
          env,
          ...beforeMounts,
          include: ['test/unit/**/*.test.ts'],
          setupFiles: ['test/support/properties.ts'],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: 'model',
          expect,
          env,
          ...beforeMounts,
          include: ['test/model/**/*.test.ts'],
        },
      },
      {
        test: {
          name: 'mount',
          expect,
          env,
          include: ['test/mount/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          fileParallelism: false,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
