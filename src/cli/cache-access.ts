import { join } from 'node:path'
import { askStatus, askToClearCache, askToVerify } from '../control/client.ts'
import type { DriveStatus, WireReport } from '../control/protocol.ts'
import { BagCache } from '../content/bag-cache.ts'
import { verifyCache } from '../content/verify.ts'
import { systemClock } from '../domain/clock.ts'
import { DriveError } from '../domain/errors.ts'
import type { Logger } from '../domain/logger.ts'
import { FactsStore } from '../state/facts-store.ts'
import { PinsStore } from '../state/pins-store.ts'
import { acquireLock } from '../state/lock.ts'
import type { DrivePlace } from './drive-places.ts'

/** The cache of one account, as `bagfs cache` uses it. */
export interface CacheAccess {
  /** `maxBytes` is unknown while no drive is mounted: the limit is a mount's. */
  stats(): Promise<Omit<DriveStatus['cache'], 'maxBytes'> & { readonly maxBytes?: number }>
  clear(): Promise<void>
  verify(onProgress: (checked: number) => void): Promise<WireReport>
}

/** Gives `task` the cache: that of a running drive, or the one on disk under the lock of its directory. */
export async function withCache<Result>(
  place: DrivePlace,
  log: Logger,
  task: (cache: CacheAccess) => Promise<Result>,
): Promise<Result> {
  if (place.kind === 'live') return task(overSocket(place.drive.socketPath))
  const lock = await acquireLock(place.stateDir)
  try {
    return await withFacts(place.stateDir, log, task)
  } finally {
    await lock.release()
  }
}

async function withFacts<Result>(
  stateDir: string,
  log: Logger,
  task: (cache: CacheAccess) => Promise<Result>,
): Promise<Result> {
  const facts = await FactsStore.open({ log }, { dir: stateDir })
  try {
    const pins = await PinsStore.open({ clock: systemClock, log }, { dir: stateDir })
    const cache = await openIdle(stateDir, { facts, pins }, log)
    try {
      return await task(onDisk(cache, facts))
    } finally {
      await cache.close()
    }
  } finally {
    await facts.close()
  }
}

/** Without limits: nothing is evicted by looking at it. */
function openIdle(
  stateDir: string,
  { facts, pins }: { readonly facts: FactsStore; readonly pins: PinsStore },
  log: Logger,
): Promise<BagCache> {
  const pinned = pins.all().flatMap(({ bagId }) => bagId ?? [])
  const download = (): Promise<never> =>
    Promise.reject(
      new DriveError('unavailable', 'Nothing is downloaded while no drive is mounted.'),
    )
  return BagCache.open(
    { service: { download }, log, clock: systemClock, facts, pinned, listedSizes: () => [] },
    {
      dir: join(stateDir, 'cache'),
      maxBytes: Number.MAX_SAFE_INTEGER,
      minFreeBytes: 0,
      graceMs: 0,
      resumeTries: 0,
      silenceMs: 1,
    },
  )
}

function overSocket(socketPath: string): CacheAccess {
  return {
    stats: async () => {
      const status = await askStatus(socketPath)
      if (status === undefined) throw new DriveError('unavailable', 'The drive has left.')
      return status.cache
    },
    clear: () => askToClearCache(socketPath),
    verify: (onProgress) => askToVerify(socketPath, onProgress),
  }
}

function onDisk(cache: BagCache, facts: FactsStore): CacheAccess {
  return {
    stats: () => {
      const { bytes, bags } = cache.stats()
      return Promise.resolve({ bytes, bags })
    },
    clear: () => cache.clear(),
    verify: async (onProgress) => {
      const report = await verifyCache(cache, [...facts.bagIds()], { onProgress })
      return { ...report, bad: [...report.bad], unreadable: [...report.unreadable] }
    },
  }
}
