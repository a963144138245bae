import { defineConfig } from 'vitest/config'

/** What comes in the end may take its time on a machine that is busy: this and all limits are against hanging only. */
const expect = { poll: { timeout: 120_000 } }

/**
 * A shell that a test starts runs no start-up file of whoever runs the tests. Bash takes the socket that Node gives it
 * as input for a login from afar, and reads ~/.bashrc, unless another shell has started it.
 */
const env = { BASH_ENV: '', SHLVL: '1' }

/** Two files at a time, of mounts too. */
const twoAtATime = { maxWorkers: 2 }

export default defineConfig({
  test: {
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
          testTimeout: 600_000,
          hookTimeout: 600_000,
        },
      },
    ],
  },
})
