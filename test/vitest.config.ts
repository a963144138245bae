import { delimiter, dirname } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** What comes in the end may take its time on a machine that is busy: this and all limits are against hanging only. */
const expect = { poll: { timeout: 120_000 } }

/**
 * A shell that a test starts runs no start-up file of the user that runs the tests. Bash takes the socket that Node gives it
 * as input for a login from afar, and reads ~/.bashrc, unless another shell has started it.
 */
const withoutShellStart = { BASH_ENV: '', SHLVL: '1' }

/** Every start of Node reads the certificates that this names. No test needs them, and hundreds start Node. */
const withoutCertificates = { NODE_EXTRA_CA_CERTS: '' }

/**
 * Programs themselves, and not the shims of pyenv or asdf: python3 takes ten times as long to start by one, and the tests
 * start it hundreds of times. Node is the one that runs the tests.
 */
const withoutShims = {
  PATH: [dirname(process.execPath), ...(process.env['PATH'] ?? '').split(delimiter)]
    .filter((directory) => !directory.endsWith('/shims'))
    .join(delimiter),
}

/** The profiles of the user that runs the tests must not lead a test to an account of theirs. */
const env = {
  ...withoutShellStart,
  ...withoutCertificates,
  ...withoutShims,
  XDG_CONFIG_HOME: '/nonexistent',
}

/** Five files at a time on the smallest machine, which has two processors: a mount test waits half of its time. */
const fiveAtATime = { maxWorkers: 5 }

/**
 * Files follow each other in a process, with the modules that it has loaded: to load the service, its libraries and
 * vitest itself for each of 180 files takes minutes of the processors. No module keeps a state, and no test replaces one.
 */
const isolate = false

/** What takes minutes; without figures of an earlier run, vitest would begin with the largest files. */
const LONGEST = [
  'mount/crash',
  'model/drive',
  'mount/two-drives',
  'mount/service-crash',
  'mount/folder-crash',
  'unit/drive/hostile',
  'mount/status',
  'mount/leaving',
  'mount/programs',
  'mount/two-machines',
  'mount/faults',
  'mount/folder-moves',
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
          isolate,
          ...fiveAtATime,
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
          isolate,
          ...fiveAtATime,
          include: ['test/model/**/*.test.ts'],
        },
      },
      {
        test: {
          name: 'mount',
          expect,
          env,
          isolate,
          ...fiveAtATime,
          include: ['test/mount/**/*.test.ts'],
          testTimeout: 1_800_000,
          hookTimeout: 1_800_000,
        },
      },
    ],
  },
})
