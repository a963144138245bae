import { randomBytes } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

const MEGABYTE = 1_000_000
const QUICK = ['--folder-settle', '50ms', '--listing-lag', '1s']
const FULL = 'No space left on device'

describe.runIf(canMount())('a folder larger than the room that is left', () => {
  let bench: Bench
  let drive: MountedDrive

  beforeEach(async () => {
    bench = await Bench.start({ capacityBytes: 20 * MEGABYTE })
    const source = join(bench.dir, 'source')
    mkdirSync(source)
    writeFileSync(join(source, 'large'), randomBytes(8 * MEGABYTE))
    writeFileSync(join(source, 'small'), randomBytes(3 * MEGABYTE))
    writeFileSync(join(bench.dir, 'other'), randomBytes(5 * MEGABYTE))
    const first = await bench.mount(...QUICK)
    await first.sh(`cp -r ${source} F`)
    await first.leave()
    bench.service.forgetEvents()
    drive = await bench.mount(...QUICK)
  })
  afterEach(async () => {
    await bench.close()
  })

  const uploadTries = (): number =>
    bench.service.events.filter(({ method, path }) => method === 'POST' && path.endsWith('/upload'))
      .length

  it('takes no change that could not be stored, tells why, and leaves the room to others', async () => {
    const before = await bench.service.contentOf('F')
    const change = 'printf x | dd of=F/small bs=1 seek=5 conv=notrunc status=none'
    expect((await drive.fails(change)).stderr).toContain(FULL)
    expect((await drive.fails('echo new > F/new')).stderr).toContain(FULL)
    expect((await drive.fails('mkdir F/directory')).stderr).toContain(FULL)
    expect((await drive.fails('truncate -s 10 F/small')).stderr).toContain(FULL)
    const { stdout } = await bench.bagfs(['status', bench.mountpoint])
    expect(stdout).toMatch(/^Refused: {2}changes of F: .* 11 MB .* 9\.0 MB/m)
    await drive.sh(`cp ${join(bench.dir, 'other')} other; cmp F/small ../source/small`)
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    expect(bench.service.uploads()).toEqual(['other'])
    expect(uploadTries()).toBe(1)
    expect((await bench.service.contentOf('F')).equals(before)).toBe(true)
    await drive.leave()
  })

  it('takes changes again once enough is removed from it', async () => {
    await drive.fails('echo new > F/new')
    await drive.sh('rm F/small; echo new > F/new')
    expect((await bench.bagfs(['status', bench.mountpoint])).stdout).not.toContain('Refused')
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    const unpacked = join(bench.dir, 'unpacked')
    await unpackFolder(bench.service, 'F', unpacked)
    await drive.sh(`cmp ../source/large ${unpacked}/large; cat ${unpacked}/new; ls ${unpacked}`)
    await drive.leave()
  })

  it('is not counted against others while too little was removed from it', async () => {
    const before = await bench.service.contentOf('F')
    await drive.sh(`cp ${join(bench.dir, 'other')} other`)
    await drive.sh('rm F/small')
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 1 })
    const { stdout } = await bench.bagfs(['status', bench.mountpoint])
    // The next try may be under way already.
    expect(stdout).toMatch(/F {2}8\.0 MB {2}(failed: |uploading .* tried )/)
    await drive.sh(`head -c ${3 * MEGABYTE} /dev/urandom > third`)
    expect((await bench.service.contentOf('F')).equals(before)).toBe(true)
    // Only one was of F.
    expect(uploadTries()).toBe(3)
    await drive.sh('rm other third')
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    expect(bench.service.uploads()).toEqual(['other', 'third', 'F.zip'])
    await drive.leave()
  })
})

describe.runIf(canMount())('content larger than the room that is left', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start({ capacityBytes: 20 * MEGABYTE })
    mkdirSync(join(bench.dir, 'source'))
    writeFileSync(join(bench.dir, 'source/large'), randomBytes(8 * MEGABYTE))
    writeFileSync(join(bench.dir, 'file'), randomBytes(7 * MEGABYTE))
  })
  afterEach(async () => {
    await bench.close()
  })

  it('is not given another name or place, which the service would store beside the old one', async () => {
    const drive = await bench.mount(...QUICK)
    await drive.sh('cp -r ../source F; mkdir G; echo small > G/small; cp ../file file')
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    bench.service.forgetEvents()
    const status = async (): Promise<string> =>
      (await bench.bagfs(['status', bench.mountpoint])).stdout
    expect((await drive.fails('mv file renamed')).stderr).toContain(FULL)
    expect(await status()).toMatch(/^Refused: {2}changes of file: .* 7\.0 MB .* 5\.0 MB/m)
    expect((await drive.fails('mv file G/')).stderr).toContain(FULL)
    expect(await status()).toMatch(/^Refused: {2}changes of G: .* 7\.0 MB .* 5\.0 MB/m)
    expect((await drive.fails('mv F/large G/')).stderr).toContain(FULL)
    expect((await drive.fails('mv F/large .')).stderr).toContain(FULL)
    expect((await drive.fails('mv F/large F/other')).stderr).toContain(FULL)
    expect(await status()).toMatch(/^Refused: {2}changes of F: /m)
    expect((await drive.fails('mv F renamed')).stderr).toContain(FULL)
    expect((await drive.fails('setfattr -n user.bagfs.description -v new file')).stderr).toContain(
      FULL,
    )
    await drive.sh('cmp file ../file; cmp F/large ../source/large; cat G/small')
    expect(bench.service.events.filter(({ method }) => method !== 'GET')).toEqual([])
    await drive.sh('rm -r F; mv file renamed; cmp renamed ../file; echo more > G/more')
    expect(await status()).not.toContain('Refused')
    await drive.leave()
    const names = (await bench.service.list()).map(({ filename }) => filename)
    expect(names.sort()).toEqual(['G', 'renamed'])
  })

  it('is given another place without room for a copy where it was not sent yet', async () => {
    const drive = await bench.mount('--folder-settle', '1h')
    await drive.sh('mkdir G; cp -r ../source F; cp ../file file.part')
    await drive.sh('mv F/large G/; mv file.part G/; mv G/file.part file.part')
    await drive.sh('cmp G/large ../source/large; cmp file.part ../file')
    await drive.leave()
    const names = (await bench.service.list()).map(({ filename }) => filename)
    expect(names.sort()).toEqual(['G', 'file.part'])
  })
})
