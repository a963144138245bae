import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, HANGING_MS } from '../support/mounted-drive.ts'
import { SEED } from '../support/seed.ts'

/** With the usual seed, more of them find nothing new. For a change of how files are written: more, and a fresh seed. */
const OPERATIONS = Number(process.env['BAGFS_OPERATIONS'] ?? 20_000)
const PROGRAM = 'test/support/one_file.py'

async function operate(
  file: string,
  operations = OPERATIONS,
  ...more: readonly string[]
): Promise<void> {
  console.info(`${operations} operations on one file: BAGFS_SEED=${SEED}`)
  const { stderr, exitCode } = await execa(
    'python3',
    [PROGRAM, file, `${SEED}`, `${operations}`, ...more],
    {
      reject: false,
      timeout: 5 * HANGING_MS,
    },
  )
  expect(stderr).toBe('')
  expect(exitCode).toBe(0)
}

it('the program that looks finds nothing on a local disk', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-one-file-'))
  try {
    await operate(join(dir, 'file'), 5_000, 'no-zero-range')
  } finally {
    rmSync(dir, { recursive: true })
  }
})

describe.runIf(canMount())('one file', () => {
  it.each(['file', 'folder/file'])(
    'is what it would be on a disk, whatever is done to it by calls and by maps: %s',
    async (name) => {
      const bench = await Bench.start()
      try {
        const drive = await bench.mount('--write-back')
        await drive.sh('mkdir folder')
        await operate(join(drive.path, name))
        const content = await drive.sh(`sha256sum < ${name}`)
        await drive.leave()
        const again = await bench.mount()
        expect(await again.sh(`sha256sum < ${name}`)).toBe(content)
      } finally {
        await bench.close()
      }
    },
  )
})
