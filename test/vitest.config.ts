import { defineConfig } from 'vitest/config'

/** What comes in the end may take its time on a machine that is busy. */
const expect = { poll: { timeout: 15_000 } }

/** Mount tests share the kernel and two cores, so their files run one after the other. */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          expect,
          include: ['test/unit/**/*.test.ts'],
          setupFiles: ['test/support/properties.ts'],
          testTimeout: 20_000,
        },
      },
      {
        test: {
          name: 'model',
          expect,
          include: ['test/model/**/*.test.ts'],
        },
      },
      {
        test: {
          name: 'mount',
          expect,
          include: ['test/mount/**/*.test.ts'],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          fileParallelism: false,
        },
      },
    ],
  },
})
