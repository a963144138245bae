import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

const SETTINGS = ['--timeout', '2s', '--listing-ttl', '200ms', '--listing-lag', '1s']
const UPLOAD = { method: 'POST', path: /upload/ }

const BEFORE = { source: 'source\n', taken: 'taken\n' }

const BROKEN = { answer: { status: 500, body: '{"detail":"Broken."}' } }

let bench: Bench
let drive: MountedDrive
beforeEach(async () => {
  bench = await Bench.start()
  for (const [name, content] of Object.entries(BEFORE)) await bench.service.upload(name, content)
  drive = await bench.mount(...SETTINGS)
  await drive.sh('cat source taken')
})
afterEach(async () => {
  await bench.close()
})

async function shown(): Promise<Record<string, string>> {
  const names = (await drive.sh('ls')).split('\n').filter((name) => name !== '')
  const files = names.map(async (name) => [name, await drive.sh(`cat ${name}`)] as const)
  return Object.fromEntries(await Promise.all(files))
}

async function nothingWaits(): Promise<void> {
  const sent = async (): Promise<unknown> => (await bench.bagfs(['sync', drive.path])).code
  await expect.poll(sent).toBe(0)
}

/** Each answer of the service is in unit/drive/failing-renames. */
describe.runIf(canMount())('a rename in mode through', () => {
  it('that fails has changed nothing when the connection is refused, or cut while it is sent', async () => {
    await bench.service.upload('large', randomBytes(20_000_000))
    await expect.poll(() => drive.sh('ls')).toContain('large')
    await drive.sh('cat large >/dev/null')
    const fault = { cutRequestAfter: 100_000 }
    bench.service.proxy.add({ match: UPLOAD, fault })
    await drive.fails('mv large elsewhere')
    expect(await drive.sh('ls')).toBe('large\nsource\ntaken\n')
    bench.service.proxy.clear()
    await bench.service.proxy.down()
    await drive.fails('mv -f source taken')
    expect(await drive.sh('ls')).toBe('large\nsource\ntaken\n')
    await bench.service.proxy.up()
    await nothingWaits()
    const names = (await bench.service.list()).map(({ filename }) => filename)
    expect(names.sort()).toEqual(['large', 'source', 'taken'])
  })

  it('that may have arrived succeeds, and is carried out', async () => {
    bench.service.proxy.add({ match: UPLOAD, fault: { answer: { status: 504 } } })
    await drive.sh('mv -f source taken')
    const after = { taken: 'source\n' }
    expect(await shown()).toEqual(after)
    await expect.poll(() => drive.log).toContain('is not stored yet, and goes on')
    bench.service.proxy.clear()
    await expect.poll(() => bench.service.contents().catch(String)).toEqual(after)
    await nothingWaits()
    expect(await shown()).toEqual(after)
  })

  it('that fails takes no description away, and a description that fails changes nothing', async () => {
    const describeIt = 'setfattr -n user.bagfs.description -v better source'
    const described = 'getfattr --only-values -n user.bagfs.description source'
    bench.service.proxy.add({ match: UPLOAD, fault: BROKEN })
    await drive.fails(describeIt)
    expect(await drive.sh(described)).toBe('')
    await drive.fails('mv source moved')
    bench.service.proxy.clear()
    await nothingWaits()
    await drive.sh(describeIt)
    expect(await drive.sh(described)).toBe('better')
  })

  it('of content that the service did not take is no reason to forget it, nor is a description', async () => {
    bench.service.proxy.add({ match: UPLOAD, fault: { answer: { status: 422 } } })
    await drive.fails('echo precious | cp /dev/stdin new')
    await drive.fails('setfattr -n user.bagfs.description -v better new')
    expect(await drive.sh('cat new')).toBe('precious\n')
    bench.service.proxy.clear()
    await bench.bagfs(['outbox', 'retry'])
    await nothingWaits()
    expect(await bench.service.contents()).toEqual({ ...BEFORE, new: 'precious\n' })
  })
})
