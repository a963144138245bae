import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { FileRecordWire } from '../../src/service/wire.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

const UPLOAD = { method: 'POST', path: /upload/ }

describe.runIf(canMount())('a folder that is stored again and again', () => {
  let bench: Bench
  let drive: MountedDrive
  afterEach(async () => {
    await bench.close()
  })

  const uploads = (): number => bench.service.uploads().length
  const unpacked = async (): Promise<string> => {
    const target = join(bench.dir, 'unpacked')
    await unpackFolder(bench.service, 'F', target)
    return target
  }

  it('deletes each bag once, and hides all of them while the listing lags', async () => {
    const seen = new Map<string, FileRecordWire>()
    const lagging: FileRecordWire[] = []
    bench = await Bench.start({ extraRecords: () => lagging })
    const deletes = (): number =>
      bench.service.proxy.requests.filter(({ method }) => method === 'DELETE').length
    /** From now on the listing shows what is deleted. */
    const lag = async (): Promise<void> => {
      const list = await bench.service.list()
      const listed = new Set(list.map(({ bag_id }) => bag_id))
      for (const record of list) seen.set(record.bag_id, record)
      lagging.push(...[...seen.values()].filter(({ bag_id }) => !listed.has(bag_id)))
    }
    drive = await bench.mount('--listing-ttl', '50ms', '--folder-settle', '50ms')
    const stopLatency = bench.service.proxy.add({ match: UPLOAD, fault: { answerLatencyMs: 500 } })
    await drive.sh('mkdir F; echo 0 > F/round')
    for (let round = 1; round <= 4; round += 1) {
      await expect.poll(uploads).toBe(round)
      // The answer is on its way: the same changes go on to the next round.
      await drive.sh(`echo ${round} > F/round`)
      await expect.poll(deletes).toBe(round - 1)
      await lag()
      expect(await drive.sh('ls; cat F/round')).toBe(`F\n${round}\n`)
    }
    stopLatency()
    await drive.leave()
    expect(uploads()).toBe(5)
    expect(deletes()).toBe(4)
    await lag()
    expect(lagging).toHaveLength(4)
    drive = await bench.mount('--listing-ttl', '50ms')
    expect(await drive.sh('ls; cat F/round')).toBe('F\n4\n')
    lagging.length = 0
    expect(await drive.sh(`cat ${await unpacked()}/round`)).toBe('4\n')
  })
})
