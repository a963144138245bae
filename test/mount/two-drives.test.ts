import PQueue from 'p-queue'
import { describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Batch, type Tally } from '../support/two-drives/batch.ts'
import { makeRuns, type Step } from '../support/two-drives/operations.ts'

/** The same runs each time, so that a red build is the fault of a change; BAGFS_TWO_SEED=0 picks others. */
const RUNS = Number(process.env['BAGFS_TWO_RUNS'] ?? 100)
const CHOSEN = Number(process.env['BAGFS_TWO_SEED'] ?? 20_261_122)
const SEED = CHOSEN === 0 ? Date.now() % 1_000_000_000 : CHOSEN
const TIMEOUT_MS = 1_800_000

/** Runs that share a pair of drives. */
const TOGETHER = 10
const BATCHES_AT_ONCE = 4
/** Every third batch has a listing that is later by this. */
const LAG_MS = 400
/** In fewer runs some kinds of moments may not come. */
const ENOUGH_RUNS = 100

describe.runIf(canMount())('two machines on one account', () => {
  it('lose nothing that was acknowledged, whichever wins', { timeout: TIMEOUT_MS }, async () => {
    const runs = makeRuns(RUNS, SEED)
    console.log(`${RUNS} runs of two drives, seed ${SEED}`)
    const starts = Array.from({ length: Math.ceil(RUNS / TOGETHER) }, (_, i) => i * TOGETHER)
    // For another look at a batch that failed: the number of its first run.
    const only = process.env['BAGFS_TWO_ONLY']
    if (only !== undefined) starts.splice(0, starts.length, Number(only))
    const queue = new PQueue({ concurrency: BATCHES_AT_ONCE })
    let hasFailed = false
    const goes = starts.map((first) => async (): Promise<readonly Tally[]> => {
      if (hasFailed) return []
      try {
        return [await goThrough(runs, first)]
      } catch (error) {
        hasFailed = true
        throw error
      }
    })
    // What is under way comes to its end, also when another batch fails.
    const outcomes = await Promise.allSettled(goes.map((go) => queue.add(go)))
    const failures = outcomes.flatMap((each) =>
      each.status === 'rejected' ? [each.reason as Error] : [],
    )
    const [failure] = failures
    if (failure !== undefined) throw failure
    const tallies = outcomes.flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
    const total = (key: keyof Tally): number => tallies.reduce((sum, each) => sum + each[key], 0)
    const { log } = console
    log(`${total('acknowledged')} tokens acknowledged, ${total('compared')} contents compared`)
    log(`${total('kills')} kills, ${total('killsWithUnsent')} of them with unsent changes`)
    log(`${total('lateRenames')} renames of what the other machine did away with were given up`)
    log(`${total('hungLeaves')} drives did not leave in time`)
    if (RUNS < ENOUGH_RUNS || only !== undefined) return
    expect(total('compared')).toBeGreaterThan(0)
    expect(total('killsWithUnsent')).toBeGreaterThan(0)
  })
})

async function goThrough(runs: readonly (readonly Step[])[], first: number): Promise<Tally> {
  const lagMs = (first / TOGETHER) % 3 === 1 ? LAG_MS : 0
  const settings = { lagMs, first }
  const batch = await Batch.start(settings)
  const outcome = await batch.go(runs.slice(first, first + TOGETHER), settings).then(
    (tally) => ({ tally }),
    (error: unknown) => ({ error }),
  )
  try {
    await batch.close()
  } catch (error) {
    // What the batch found matters more.
    if (!('error' in outcome)) throw error
    console.error(error)
  }
  if ('error' in outcome) throw outcome.error
  return outcome.tally
}
