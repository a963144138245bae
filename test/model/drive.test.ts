import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { silentLogger } from '../../src/domain/logger.ts'
import { startLocalService, type LocalService } from '../../src/local-service/server.ts'
import type { DriveHome } from '../support/drive-in-process.ts'
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.ts'
import { SEED } from '../support/seed.ts'
import {
  inTrouble,
  listedLate,
  operations,
  operationsInTrouble,
  operationsListedLate,
  run,
  runListedLate,
} from './user.ts'

const RUNS = Number(process.env['BAGFS_MODEL_RUNS'] ?? 1_000)
const RUNS_IN_TROUBLE = Math.ceil(RUNS / 4)
/** Of a service, before the next one: for each request it compares the token with those of all its accounts. */
const ACCOUNTS = 50
const LIMITS = { seed: SEED, endOnFailure: RUNS > 100, maxSkipsPerRun: 0 }

describe('a drive and plain maps', () => {
  let service: LocalService | undefined
  let dir: string
  let accounts = 0
  /** A wait that is no length of time would fire at once, for ever. */
  const overflows: string[] = []
  const onWarning = ({ name, message }: Error): void => {
    if (name === 'TimeoutOverflowWarning') overflows.push(message)
  }
  beforeAll(() => {
    process.on('warning', onWarning)
    dir = mkdtempSync(join(tmpdir(), 'bagfs-model-'))
  })
  afterAll(async () => {
    process.off('warning', onWarning)
    await service?.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const newService = async (): Promise<LocalService> => {
    await service?.close()
    const dataDir = join(dir, 'service')
    rmSync(dataDir, { recursive: true, force: true })
    const tokens = Array.from({ length: ACCOUNTS }, (_, at) => `token-${at}`)
    return startLocalService({ dataDir, tokens }, { log: silentLogger })
  }
  const newHome = async () => {
    const number = accounts % ACCOUNTS
    if (service === undefined || number === 0) service = await newService()
    accounts += 1
    return { url: service.url, dir: join(dir, `state-${accounts}`), token: `token-${number}` }
  }

  it(`agree after anything (${RUNS} runs, seed ${SEED})`, { timeout: 1_800_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(operations, fc.boolean(), async (all, writeBack) => {
        const home = { ...(await newHome()), writeBack }
        await run(home, all)
        rmSync(home.dir, { recursive: true, force: true })
      }),
      { ...LIMITS, numRuns: RUNS },
    )
    expect(overflows).toEqual([])
  })

  /** Runs operations on a drive of this kind, with a proxy before its account. */
  const agreeThrough = async <Each>(
    all: fc.Arbitrary<readonly Each[]>,
    kind: Partial<DriveHome>,
    runThrough: (home: DriveHome, all: readonly Each[], proxy: FaultProxy) => Promise<void>,
  ): Promise<void> => {
    const property = fc.asyncProperty(all, async (each) => {
      const home = { writeBack: true, ...(await newHome()), ...kind }
      const proxy = await startFaultProxy(home.url)
      try {
        await runThrough(home, each, proxy)
        rmSync(home.dir, { recursive: true, force: true })
      } finally {
        await proxy.close()
      }
    })
    await fc.assert(property, { ...LIMITS, numRuns: RUNS_IN_TROUBLE })
    expect(overflows).toEqual([])
  }

  const title = `agree though what is sent goes wrong (${RUNS_IN_TROUBLE} runs, seed ${SEED})`
  it(title, { timeout: 1_800_000 }, () => agreeThrough(operationsInTrouble, inTrouble, run))

  const late = `agree though the service lists late (${RUNS_IN_TROUBLE} runs, seed ${SEED})`
  it(late, { timeout: 1_800_000 }, () =>
    agreeThrough(operationsListedLate, listedLate, runListedLate),
  )
})
