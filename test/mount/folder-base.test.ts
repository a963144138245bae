import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { HostileService } from '../support/hostile-service.ts'
import { MountedDrive } from '../support/mounted-drive.ts'

const PROGRAM = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    for name in sys.argv[2:]: z.writestr(name, name * 500)
sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())`

let dir: string
let service: HostileService
let drive: MountedDrive
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-test-'))
  service = await HostileService.start()
})
afterEach(async () => {
  await drive.kill()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

async function makeZip(...names: readonly string[]): Promise<Buffer> {
  const args = ['-c', PROGRAM, join(dir, 'made.zip'), ...names]
  return Buffer.from((await execa('python3', args, { encoding: 'buffer' })).stdout)
}

async function mount(): Promise<void> {
  const dirs = { mountpoint: join(dir, 'drive'), stateDir: join(dir, 'state') }
  drive = await MountedDrive.mount(service, dirs, ['--folder-settle', '100ms'])
}

/** The listing tells another size than any answer has. */
function listWrongSizes(): void {
  const body = (sound: Buffer): string => sound.toString().replaceAll('"size":', '"size":1')
  service.harm({ body }, Infinity, ({ endpoint }) => endpoint === 'list')
}

describe.runIf(canMount())('a folder whose zip has not the listed size', () => {
  it('is not replaced by changes of another zip that came in its place', async () => {
    service.put('F', await makeZip('one', 'two', 'three'))
    const other = await makeZip('one', 'two')
    const headers = { 'content-type': 'application/octet-stream' }
    listWrongSizes()
    service.harm({ headers, body: other }, Infinity, ({ endpoint }) => endpoint === 'download')
    await mount()
    await expect.poll(() => drive.sh('ls F')).toBe('one\ntwo\n')
    // From now on what comes is what is stored.
    service.well()
    listWrongSizes()
    await drive.sh('rm F/one F/two; echo more >F/more')
    await expect.poll(() => drive.sh('cat .bagfs/status')).toContain('not read as it is stored')
    expect(service.losses).toEqual([])
    await drive.leave()
    await mount()
    // The length of the other zip is known from before, until the right one comes.
    await expect.poll(() => drive.sh('ls F')).toBe('more\nthree\n')
    const state = (): Promise<string> =>
      drive.sh('getfattr -n user.bagfs.state --only-values F; cat .bagfs/status')
    await expect.poll(state).toMatch(/^stored/)
    await expect.poll(() => service.contents('F').length).toBe(1)
  })

  it('takes changes once its zip came twice the same', async () => {
    service.put('F', await makeZip('one', 'two'))
    service.mayLose.add('F')
    listWrongSizes()
    await mount()
    await drive.sh('echo more >F/more; sync -f F/more')
    await expect.poll(() => service.contents('F').length).toBe(1)
    await expect.poll(() => service.contents('F')[0]).toContain('more')
    expect(await drive.sh('ls F')).toBe('more\none\ntwo\n')
  })
})
