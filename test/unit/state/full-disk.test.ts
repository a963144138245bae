import { mkdtempSync, readdirSync, rmSync, statfsSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import { toBagId, type BagId, type IntentId } from '../../../src/domain/ids.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import type { DeleteIntent } from '../../../src/intents/intent.ts'
import { Outbox } from '../../../src/outbox/outbox.ts'
import { FactsStore } from '../../../src/state/facts-store.ts'
import { acquireLock } from '../../../src/state/lock.ts'
import { Reserve } from '../../../src/state/reserve.ts'
import { canMountSmallDisk } from '../../support/fuse.ts'
import { fillDisk, mountSmallDisk, unmountSmallDisk, useUpFiles } from '../../support/small-disk.ts'

const MEBIBYTE = 2 ** 20
const base = { clock: systemClock, log: silentLogger }

function deleteOf(id: IntentId): DeleteIntent {
  return {
    version: 1,
    kind: 'delete',
    id,
    name: id,
    phase: 'waiting',
    createdAtMs: 1,
    replaces: [],
    supersedes: [],
  }
}

describe.runIf(canMountSmallDisk())('on a full disk', () => {
  let dir: string
  let reserve: Reserve
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-full-'))
    mountSmallDisk(dir, 12 * MEBIBYTE, 500)
    reserve = new Reserve(base, { dir })
  })
  afterEach(async () => {
    await reserve.close()
    unmountSmallDisk(dir)
    rmSync(dir, { recursive: true })
  })

  const reserved = (): number =>
    (statSync(join(dir, 'reserve'), { throwIfNoEntry: false })?.blocks ?? 0) * 512
  const bag = (number: number): BagId => toBagId(`bag ${number}`)
  const openFacts = (): Promise<FactsStore> => FactsStore.open({ ...base, reserve }, { dir })
  const learn = (facts: FactsStore, from: number): void => {
    for (let n = from; n < from + 1_000; n += 1)
      facts.learn(bag(n), { sha256: String(n), length: n })
  }

  it('the reserve is real, is given away once, and is made again as soon as there is room', async () => {
    await reserve.make()
    expect(reserved()).toBe(4 * MEBIBYTE)
    expect(reserve.isOut).toBe(false)
    const makeRoom = fillDisk(dir)
    expect(reserve.release()).toBe(true)
    expect(reserve.isOut).toBe(true)
    const makeMoreRoom = fillDisk(join(dir))
    expect(reserve.release()).toBe(false)
    await reserve.make()
    expect(reserve.isOut).toBe(true)
    makeMoreRoom()
    expect(makeRoom).toThrow()
    expect(reserve.isOut).toBe(false)
    await expect.poll(reserved).toBe(4 * MEBIBYTE)
  })

  it('the reserve is made of what room there is', async () => {
    const makeRoom = fillDisk(dir)
    await reserve.make()
    expect(reserve.isOut).toBe(true)
    makeRoom()
    await expect.poll(() => reserve.isOut).toBe(false)
  })

  it('the reserve that is given away while it is made leaves its room at once', async () => {
    const making = reserve.make()
    while (reserved() < MEBIBYTE) await setImmediate()
    expect(reserved()).toBeLessThan(4 * MEBIBYTE)
    expect(reserve.release()).toBe(true)
    const { bavail, bsize } = statfsSync(dir)
    expect(bavail * bsize).toBeGreaterThan(11.5 * MEBIBYTE)
    await making
    expect(reserved()).toBe(0)
  })

  it('changes of the outbox that need the reserve at once all have it', async () => {
    const outbox = await Outbox.open({ ...base, reserve }, { dir: join(dir, 'outbox') })
    await reserve.make()
    fillDisk(dir)
    const ids = Array.from({ length: 9 }, () => outbox.nextId())
    await Promise.all(ids.map((id) => outbox.add(deleteOf(id), { durable: true })))
    expect(outbox.intents()).toHaveLength(9)
    await outbox.close()
  })

  it('the lock is had by means of the reserve, and without one nobody gets it', async () => {
    await (await acquireLock(dir)).release()
    await reserve.make()
    fillDisk(dir)
    const lock = await acquireLock(dir)
    expect(readdirSync(dir)).not.toContain('reserve')
    await expect(acquireLock(dir)).rejects.toMatchObject({ code: 'locked' })
    await lock.release()
    fillDisk(dir)
    await expect(acquireLock(dir)).rejects.toMatchObject({
      code: 'local-disk-full',
      message: `The local disk is full: ${dir} cannot be used.`,
    })
  })

  it('a reserve of files alone does not give the lock, and that is told as a full disk', async () => {
    await (await acquireLock(dir)).release()
    await reserve.make()
    rmSync(join(dir, 'reserve'))
    fillDisk(dir)
    await expect(acquireLock(dir)).rejects.toMatchObject({ code: 'local-disk-full' })
  })

  it('the lock is had by means of the reserve where no further file can be made', async () => {
    await (await acquireLock(dir)).release()
    await reserve.make()
    useUpFiles(dir)
    expect(reserve.isOut).toBe(false)
    const lock = await acquireLock(dir)
    await reserve.make()
    expect(reserve.isOut).toBe(true)
    await lock.release()
  })

  it('the reserve is out until there is room for its files, too', async () => {
    await reserve.make()
    rmSync(join(dir, 'reserve.files'), { recursive: true })
    const makeRoom = useUpFiles(dir)
    await reserve.make()
    expect(reserve.isOut).toBe(true)
    makeRoom()
    await expect.poll(() => readdirSync(join(dir, 'reserve.files'))).toHaveLength(32)
    expect(reserve.isOut).toBe(false)
  })

  it('facts are read and written by means of the reserve, and none is set aside', async () => {
    const facts = await openFacts()
    await reserve.make()
    learn(facts, 0)
    await facts.close()
    fillDisk(dir)
    const again = await openFacts()
    expect(again.get(bag(999))).toEqual({ sha256: '999', length: 999 })
    learn(again, 1_000)
    await again.close()
    expect(readdirSync(dir).filter((name) => name.startsWith('facts'))).toEqual(['facts'])
  })

  it('facts that could not be written are written once there is room, and none is lost', async () => {
    const facts = await openFacts()
    learn(facts, 0)
    await facts.flush()
    const makeRoom = fillDisk(dir)
    learn(facts, 1_000)
    await expect(facts.flush()).rejects.toMatchObject({ code: 'local-disk-full' })
    makeRoom()
    learn(facts, 2_000)
    await facts.close()
    const again = await openFacts()
    for (const number of [0, 999, 1_000, 1_999, 2_000, 2_999]) {
      expect(again.get(bag(number))).toEqual({ sha256: String(number), length: number })
    }
    await again.close()
  })
})
