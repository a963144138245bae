import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

const MAKE_ZIP =
  "python3 -c \"import zipfile; z = zipfile.ZipFile('../real.zip', 'w'); z.writestr('in.txt', 'in'); z.close()\""

describe.runIf(canMount())('a folder on two machines', () => {
  let bench: Bench
  let drive: MountedDrive
  let env: Record<string, string>
  beforeEach(async () => {
    bench = await Bench.start()
    env = { BAGFS_URL: bench.service.proxy.url, BAGFS_TOKEN: bench.service.token }
  })
  afterEach(async () => {
    await bench.close()
  })

  const mount = async (): Promise<void> => {
    drive = await bench.mount('--listing-ttl', '50ms', '--folder-settle', '50ms')
  }
  /** The state directory of the other machine goes aside, or comes back. */
  const swapMachines = (aside: string, back?: string): void => {
    renameSync(bench.stateDir, join(bench.dir, aside))
    if (back !== undefined) renameSync(join(bench.dir, back), bench.stateDir)
  }
  const shows = async (...names: readonly string[]): Promise<void> => {
    await expect.poll(() => drive.sh('ls -F')).toBe(`${names.join('\n')}\n`)
  }
  const stored = async (): Promise<readonly string[]> =>
    (await bench.service.list()).map(({ filename }) => filename).sort()

  it('is one on both where the service lists it as NAME.zip, and a file NAME.zip is a file', async () => {
    bench.service.proxy.zipFolders()
    await mount()
    await drive.sh(`mkdir Photos; echo a > Photos/a; ${MAKE_ZIP}; cp ../real.zip real.zip`)
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    await shows('Photos/', 'real.zip')
    await drive.leave()

    swapMachines('one')
    await mount()
    // A name that was not looked at yet is found too.
    expect(await drive.sh('cat Photos/a; cmp real.zip ../real.zip')).toBe('a\n')
    await shows('Photos/', 'real.zip')
    bench.service.forgetEvents()
    await drive.sh('echo b > Photos/b')
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    // A slow machine may store it between the making of the file and its close, too.
    expect(new Set(bench.service.uploads())).toEqual(new Set(['Photos.zip']))
    await drive.sh('mv Photos Pics')
    await shows('Pics/', 'real.zip')
    await drive.leave()
    expect(await stored()).toEqual(['Pics', 'real.zip'])

    swapMachines('two', 'one')
    await mount()
    await shows('Pics/', 'real.zip')
    expect(await drive.sh('cat Pics/a Pics/b; cmp real.zip ../real.zip')).toBe('a\nb\n')
    const got = await bench.bagfs(['get', 'Pics', join(bench.dir, 'out')], { env })
    expect(got).toMatchObject({ code: 0, stderr: '' })
    expect(await drive.sh('cat ../out/a ../out/b')).toBe('a\nb\n')
  })

  it('leaves a zip that was fetched from it and stored under NAME.zip a file where folders are listed as NAME', async () => {
    await mount()
    await drive.sh('mkdir Photos; echo a > Photos/a')
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    const zip = join(bench.dir, 'Photos.zip')
    expect(await bench.bagfs(['get', 'Photos', zip, '--zip'], { env })).toMatchObject({ code: 0 })
    await drive.sh('cp ../Photos.zip .')
    await drive.leave()

    swapMachines('one')
    await mount()
    await shows('Photos/', 'Photos.zip')
    expect(await drive.sh('cat Photos/a; cmp Photos.zip ../Photos.zip')).toBe('a\n')
    expect(await drive.sh('cat .bagfs/status')).not.toContain('zipped')
  })
})
