import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

const LISTING = /files_list/

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  await bench.close()
})

describe.runIf(canMount())('a file that was stored here', () => {
  it('goes within the time to live when another machine removes it before a listing has it', async () => {
    const drive = await bench.mount('--listing-ttl', '100ms', '--listing-lag', '1s')
    const listed = bench.service.proxy.add({
      match: { path: LISTING },
      fault: { answer: { status: 503 } },
    })
    await drive.sh('echo mine > gone; echo mine > log; echo mine > stays; mkdir dir; echo > dir/a')
    await bench.bagfs(['sync', bench.mountpoint])
    const records = await bench.service.list()
    for (const { filename, bag_id } of records) {
      if (filename !== 'stays') await bench.service.delete(bag_id)
    }
    await bench.service.upload('log', 'other\n')
    listed()
    await expect.poll(() => drive.sh('ls')).toBe('log\nstays\n')
    expect(await drive.sh('cat log stays')).toBe('other\nmine\n')
    expect(await drive.sh('echo again > gone; cat gone; ls')).toBe('again\ngone\nlog\nstays\n')
    expect(await bench.service.contents()).toEqual({
      gone: 'again\n',
      log: 'other\n',
      stays: 'mine\n',
    })
  })

  it('stays, and brings back nothing, for as long as a listing lags that lacks it', async () => {
    const old = await bench.service.upload('doc', 'old\n')
    const drive = await bench.mount('--listing-ttl', '100ms', '--listing-lag', '200ms')
    expect(await drive.sh('cat doc')).toBe('old\n')
    bench.service.proxy.lagListing(3_000)
    await drive.sh('echo new > doc; echo first > other')
    const bags = async () => (await bench.service.list()).map(({ bag_id }) => bag_id)
    await expect.poll(bags).not.toContain(old)
    const asked = (): number =>
      bench.service.proxy.requests.filter(({ path }) => LISTING.test(path)).length
    const before = asked()
    // Far more looks than fit into the time that the drive was told the listing may lag.
    while (asked() < before + 12) {
      expect(await drive.sh('ls; cat doc other')).toBe('doc\nother\nnew\nfirst\n')
    }
    // Each of the three bags that were listed wrongly is asked for at a listing, and not more often.
    const fetched = bench.service.proxy.requests.filter(({ path }) => /download/.test(path))
    expect(fetched.length).toBeLessThan(3 * asked())
  })
})

describe.runIf(canMount())('a file that was removed here', () => {
  it('shows again when another machine stores the same content under its name', async () => {
    const drive = await bench.mount('--listing-ttl', '100ms', '--listing-lag', '500ms')
    const old = await bench.service.upload('doc', 'same\n')
    await expect.poll(() => drive.sh('ls')).toBe('doc\n')
    await drive.sh('rm doc')
    expect(await drive.sh('ls')).toBe('')
    expect(await bench.service.upload('doc', 'same\n')).toBe(old)
    await expect.poll(() => drive.sh('ls')).toBe('doc\n')
    expect(await drive.sh('cat doc')).toBe('same\n')
  })
})
