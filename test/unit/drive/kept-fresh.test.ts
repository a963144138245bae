import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { KeptFresh } from '../../../src/drive/root/kept-fresh.ts'
import { Listing } from '../../../src/namespace/listing.ts'
import { ListingStore } from '../../../src/state/listing-store.ts'
import { ManualClock } from '../namespace/manual-clock.ts'

const TTL_MS = 5_000
const STEP_MS = 250

let dir: string
let clock: ManualClock
let listing: Listing
let kept: KeptFresh
let asked: number
/** How long the service takes for a listing, in ms. */
let tookMs: number
let isDown: boolean

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-kept-fresh-'))
  clock = new ManualClock()
  asked = 0
  tookMs = 0
  isDown = false
  const listFiles = () => {
    asked += 1
    clock.move(tookMs)
    return isDown
      ? Promise.reject(new DriveError('unavailable', 'It is down.'))
      : Promise.resolve([])
  }
  listing = await Listing.open(
    { service: { listFiles }, clock, log: silentLogger, store: new ListingStore(dir) },
    { ttlMs: TTL_MS, waitMs: 1_000 },
  )
  const entries = { freshNow: () => listing.freshNow() !== undefined }
  kept = new KeptFresh({ listing, entries, clock })
})
afterEach(async () => {
  kept.close()
  await listing.close()
  rmSync(dir, { recursive: true, force: true })
})

/** The oldest that the listing was while this time passed, in ms. */
async function pass(ms: number): Promise<number> {
  let oldest = 0
  for (let passed = 0; passed < ms; passed += STEP_MS) {
    clock.move(STEP_MS)
    await new Promise((resolve) => setImmediate(resolve))
    oldest = Math.max(oldest, listing.status().ageMs ?? 0)
  }
  return oldest
}

describe('the listing that a kernel goes by without asking', () => {
  it('is kept younger than its time to live while anything is trusted, and then rests', async () => {
    await listing.fresh()
    const trustMs = kept.trust()
    expect(trustMs).toBe(120_000)
    expect(await pass(trustMs)).toBeLessThan(TTL_MS)
    await pass(TTL_MS)
    const then = asked
    await pass(600_000)
    expect(asked).toBe(then)
    kept.trust()
    await pass(TTL_MS)
    expect(asked).toBeGreaterThan(then)
  })

  it('is asked for less often after the last use, the longer the service takes for it', async () => {
    tookMs = 2_000
    await listing.fresh()
    expect(kept.trust()).toBe(2 * TTL_MS)
    tookMs = 60_000
    await listing.refreshNow()
    expect(kept.trust()).toBe(TTL_MS)
  })

  it('is kept fresh after the machine slept, for as long as the kernel still goes by its own clock', async () => {
    await listing.fresh()
    const trustMs = kept.trust()
    clock.move(10 * trustMs)
    await pass(TTL_MS)
    expect(await pass(trustMs - 2 * TTL_MS)).toBeLessThan(TTL_MS)
  })

  it('is trusted for nothing before there is one, nor after the drive was closed', async () => {
    expect(kept.trust()).toBe(0)
    await listing.fresh()
    kept.close()
    expect(kept.trust()).toBe(0)
    const then = asked
    await pass(60_000)
    expect(asked).toBe(then)
  })

  it('leaves a service alone that is down, for as long as other calls do', async () => {
    await listing.fresh()
    const trustMs = kept.trust()
    isDown = true
    await pass(trustMs)
    // Once a second and then twice as late each time, up to half a minute.
    expect(asked).toBeLessThan(15)
  })
})
