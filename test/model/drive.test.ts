import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { silentLogger } from '../../src/domain/logger.ts'
import { startLocalService, type LocalService } from '../../src/local-service/server.ts'
import { startFaultProxy } from '../support/fault-proxy.ts'
import { SEED } from '../support/seed.ts'
import { operations, operationsInTrouble, run } from './user.ts'

const RUNS = Number(process.env['BAGFS_MODEL_RUNS'] ?? 1_000)
const RUNS_IN_TROUBLE = Math.ceil(RUNS / 4)
const LIMITS = { seed: SEED, endOnFailure: RUNS > 100, maxSkipsPerRun: 0 }

describe('a drive and plain maps', () => {
  let service: LocalService
  let dir: string
  let accounts = 0
  /** A wait that is no length of time would fire at once, for ever. */
  const overflows: string[] = []
  const onWarning = ({ name, message }: Error): void => {
    if (name === 'TimeoutOverflowWarning') overflows.push(message)
  }
  beforeAll(async () => {
    process.on('warning', onWarning)
    dir = mkdtempSync(join(tmpdir(), 'bagfs-model-'))
    const tokens = Array.from({ length: RUNS * 4 + 200 }, (_, at) => `token-${at}`)
    service = await startLocalService(
      { dataDir: join(dir, 'service'), tokens },
      { log: silentLogger },
    )
  })
  afterAll(async () => {
    process.off('warning', onWarning)
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const newHome = () => {
    accounts += 1
    const at = { dir: join(dir, `state-${accounts}`), token: `token-${accounts}` }
    return { url: service.url, ...at }
  }

  it(`agree after anything (${RUNS} runs, seed ${SEED})`, { timeout: 1_200_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(operations, fc.boolean(), async (all, writeBack) => {
        const home = { ...newHome(), writeBack }
        await run(home, all)
        rmSync(home.dir, { recursive: true, force: true })
      }),
      { ...LIMITS, numRuns: RUNS },
    )
    expect(overflows).toEqual([])
  })

  const inTrouble = `agree though what is sent goes wrong (${RUNS_IN_TROUBLE} runs, seed ${SEED})`
  it(inTrouble, { timeout: 1_200_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(operationsInTrouble, async (all) => {
        const proxy = await startFaultProxy(service.url)
        try {
          const home = { ...newHome(), writeBack: true }
          await run(home, all, proxy)
          rmSync(home.dir, { recursive: true, force: true })
        } finally {
          await proxy.close()
        }
      }),
      { ...LIMITS, numRuns: RUNS_IN_TROUBLE },
    )
    expect(overflows).toEqual([])
  })
})
