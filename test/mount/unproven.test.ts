import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

const NO_BAG = '1'.repeat(64)
const WRONG_ID = {
  answer: {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ bag_id: NO_BAG }),
  },
}
const UPLOAD = { method: 'POST', path: /upload/ }
const SETTINGS = ['--listing-ttl', '200ms', '--listing-lag', '1s', '--folder-settle', '100ms']

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  await bench.close()
})

describe.runIf(canMount()).each([
  ['through', []],
  ['back', ['--write-back']],
])('new content whose upload was answered with the id of no bag (mode %s)', (_, args) => {
  it('stays here, is told truly, and is stored in the end', async () => {
    const drive = await bench.mount(...SETTINGS, ...args)
    bench.service.proxy.add({ match: UPLOAD, fault: WRONG_ID })
    await drive.sh('echo precious >file; mkdir folder; echo dear >folder/entry')
    expect((await bench.bagfs(['sync', drive.path])).code).not.toBe(0)
    const seen = (): Promise<string> => drive.sh('ls; cat file folder/entry')
    const state = (): Promise<string> => drive.sh('getfattr --only-values -n user.bagfs.state file')
    await expect.poll(state).toMatch(/^failed: .* the id of no bag/)
    expect(await seen()).toBe('file\nfolder\nprecious\ndear\n')
    bench.service.proxy.clear()
    const sent = async (): Promise<number | undefined> =>
      (await bench.bagfs(['sync', drive.path])).code
    await expect.poll(sent).toBe(0)
    expect((await bench.service.list()).map(({ filename }) => filename).sort()).toEqual([
      'file',
      'folder',
    ])
    expect((await bench.service.contentOf('file')).toString()).toBe('precious\n')
    expect(await seen()).toBe('file\nfolder\nprecious\ndear\n')
    await drive.leave()
    const again = await bench.mount(...SETTINGS)
    expect(await again.sh('ls; cat file folder/entry')).toBe('file\nfolder\nprecious\ndear\n')
  })

  it.each(['file', 'folder/entry'])(
    'is stored by the next mount after a kill before that was found out (%s)',
    async (path) => {
      const drive = await bench.mountKilledAt('proof.begin', ...SETTINGS, ...args)
      bench.service.proxy.add({ match: UPLOAD, times: 1, fault: WRONG_ID })
      await drive.sh(`mkdir -p $(dirname ${path}); echo precious >${path} || true`)
      await drive.ended()
      await drive.kill()
      expect(await bench.service.list()).toEqual([])
      const again = await bench.mount(...SETTINGS, ...args)
      expect(await again.sh(`cat ${path}`)).toBe('precious\n')
      await expect.poll(() => bench.service.list()).toHaveLength(1)
      await expect.poll(async () => (await bench.bagfs(['sync', again.path])).code).toBe(0)
      expect(await again.sh(`cat ${path}`)).toBe('precious\n')
    },
  )

  it('keeps umount waiting for the proof, and is told there', async () => {
    const drive = await bench.mount(...SETTINGS, ...args)
    bench.service.proxy.add({ match: UPLOAD, fault: WRONG_ID })
    await drive.sh('echo precious >file')
    const { code, stdout, stderr } = await bench.bagfs(['umount', drive.path])
    expect(code, stdout + stderr).toBe(1)
    bench.service.proxy.clear()
    const again = await bench.mount(...SETTINGS)
    expect(await again.sh('cat file')).toBe('precious\n')
    await expect.poll(() => bench.service.contents()).toEqual({ file: 'precious\n' })
  })
})
