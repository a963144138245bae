import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { DriveLimits } from '../../support/drive-in-process.ts'
import { HOSTILE_ROWS } from '../../support/hostile-rows.ts'
import { HostileRun } from '../../support/hostile-run.ts'
import { ProgramsInProcess } from '../../support/programs-in-process.ts'

/** Far above what any row takes, on a busy machine too. */
const LIMIT_MS = 60_000
/** For answers that nothing else ends. */
const LIMITS: DriveLimits = { timeoutMs: 500, cacheBytes: 4e6 }
/** More than a drive keeps in any row: the small cache, with a window for each of its readers. */
const MOST_BYTES = 32e6

/** The drive goes on meanwhile: a file that is gone takes no room. */
function bytesBelow(dir: string): number {
  return readdirSync(dir, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => lstatSync(join(parentPath, name), { throwIfNoEntry: false }))
    .reduce((sum, found) => sum + (found?.size ?? 0), 0)
}

describe('whatever a service answers', () => {
  let dir: string
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-hostile-'))
  })
  afterEach(() => {
    rmSync(dir, { recursive: true, force: true })
  })

  it.each(HOSTILE_ROWS.filter(({ onMount }) => onMount !== true))(
    'a drive stands it: $endpoint, $name',
    async (row) => {
      const run = await HostileRun.start(row, (service) =>
        ProgramsInProcess.start(
          service,
          join(dir, 'here'),
          row.hasLimits === true ? LIMITS : undefined,
        ),
      )
      try {
        const startedAt = performance.now()
        await run.meet()
        expect(performance.now() - startedAt).toBeLessThan(LIMIT_MS)
        expect(bytesBelow(dir)).toBeLessThan(MOST_BYTES)
        await run.isWellAgain((service) => ProgramsInProcess.start(service, join(dir, 'elsewhere')))
      } finally {
        await run.end()
      }
    },
  )
})
