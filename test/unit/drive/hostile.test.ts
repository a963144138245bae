import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { HOSTILE_ROWS } from '../../support/hostile-rows.ts'
import { HostileRun } from '../../support/hostile-run.ts'
import { ProgramsInProcess } from '../../support/programs-in-process.ts'

/** Far above what any row takes, on a busy machine too. */
const LIMIT_MS = 10_000

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
        ProgramsInProcess.start(service, join(dir, 'here')),
      )
      try {
        const startedAt = performance.now()
        await run.meet()
        expect(performance.now() - startedAt).toBeLessThan(LIMIT_MS)
        await run.isWellAgain((service) => ProgramsInProcess.start(service, join(dir, 'elsewhere')))
      } finally {
        await run.end()
      }
    },
  )
})
