import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type Outcome } from '../support/mounted-drive.ts'

describe.runIf(canMount())('what is pinned in a drive', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })
  const bagfs = (...args: readonly string[]): Promise<Outcome> => bench.bagfs(args)
  const list = async (): Promise<string> => (await bagfs('pin', '--list')).stdout
  const allHere = async (): Promise<void> => {
    await expect
      .poll(async () => (await bagfs('status', bench.mountpoint)).stdout)
      .toContain('Pinned:   2 names, 3.0 MB: all here, to be read offline')
  }

  it('is read offline, also after kill -9 and a mount without the network, and followed after it', async () => {
    const other = await bench.mountOther()
    await other.sh(
      'mkdir folder; head -c 2000000 /dev/urandom > folder/x; head -c 1000000 /dev/urandom > a',
    )
    await other.sh('sha256sum a folder/x > ../sums')
    expect((await bagfs('sync', other.path)).code).toBe(0)
    await other.leave()
    const drive = await bench.mount()
    expect((await bagfs('pin', `${drive.path}/a`)).stdout).toMatch(/^a: pinned; /)
    const inside = await bagfs('pin', `${drive.path}/folder/x`)
    expect(inside).toMatchObject({ code: 0 })
    expect(inside.stderr).toContain(
      'is in the folder folder, which is one bag: all of it is pinned',
    )
    await allHere()
    await drive.kill()
    await bench.service.proxy.down()
    const again = await bench.mount()
    await again.sh('sha256sum -c --quiet ../sums; ls folder')
    await allHere()
    expect((await bagfs('cache', 'clear', again.path)).stdout).toContain('open or pinned')
    await again.sh('cat .bagfs/status | grep Pinned; sha256sum -c --quiet ../sums')
    await bench.service.proxy.up()
    await bench.service.upload('a', 'y'.repeat(1_000_000))
    await expect.poll(async () => (await bagfs('refresh')).code).toBe(0)
    await expect
      .poll(async () => (await bagfs('explain', `${again.path}/a`)).stdout)
      .toMatch(/all of it in the cache[^]*Pinned: +kept on this machine; all here/)
    await bench.service.proxy.down()
    expect(await again.sh('head -c 3 a')).toBe('yyy')
  })

  it('is told plainly, and given up: also a name that is gone, and what never was pinned', async () => {
    const drive = await bench.mount('--cache-size', '2MB')
    const bagId = await bench.service.upload('large', 'x'.repeat(3_000_000))
    await bagfs('refresh')
    const path = `${drive.path}/large`
    const pinned = await bagfs('pin', path)
    expect(pinned).toMatchObject({ code: 6 })
    expect(pinned.stdout).toContain('does not fit into the cache of 2.0 MB; mount with a larger')
    expect(await list()).toContain('  large  3.0 MB  ')
    const json = JSON.parse((await bagfs('pin', '--json', drive.path)).stdout) as unknown
    const told = { name: 'large', state: 'no-room', lacks: 'cache-size' }
    expect(json).toMatchObject([{ mountpoint: drive.path, pins: [told] }])
    await bench.service.delete(bagId)
    await bagfs('refresh')
    await expect.poll(list).toContain('nothing has this name now')
    expect(await bagfs('unpin', path)).toMatchObject({ code: 0 })
    expect((await bagfs('unpin', path)).code).toBe(4)
    expect((await bagfs('pin', path)).code).toBe(4)
    expect((await bagfs('pin', drive.path)).stderr).toContain('cannot be pinned as a whole')
    expect((await bagfs('pin')).code).toBe(2)
    expect((await bagfs('pin', '--list')).stderr).toContain('Nothing is pinned.')
  })
})
