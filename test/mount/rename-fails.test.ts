import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Fault } from '../support/fault-proxy.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

const SETTINGS = ['--timeout', '2s', '--listing-ttl', '200ms', '--listing-lag', '1s']
const UPLOAD = { method: 'POST', path: /upload/ }

/** What a program does to `source`, and what the account holds then. */
const CHANGES = [
  { change: 'mv source moved', after: { moved: 'source\n', taken: 'taken\n' } },
  { change: 'mv -f source taken', after: { taken: 'source\n' } },
] as const
const BEFORE = { source: 'source\n', taken: 'taken\n' }

/** Answers that say that nothing was done. */
const REFUSALS: Readonly<Record<string, Fault>> = {
  'is answered with 500': { answer: { status: 500, body: '{"detail":"Broken."}' } },
  'is answered with 507': { answer: { status: 507 } },
  'is answered with 403': { answer: { status: 403 } },
}
/** Nobody can know whether it was done. */
const DOUBTS: Readonly<Record<string, Fault>> = {
  'never answered': { silence: true },
  'answered by a gateway': { answer: { status: 504 } },
  'answered with a page': { html: true },
}

const casesOf = (faults: Readonly<Record<string, Fault>>) =>
  CHANGES.flatMap((each) => Object.entries(faults).map(([how, fault]) => ({ ...each, how, fault })))

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

describe.runIf(canMount())('a rename in mode through', () => {
  it.each(casesOf(REFUSALS))(
    'that fails has changed nothing, and changes nothing later: $change, $how',
    async ({ change, fault }) => {
      bench.service.proxy.add({ match: UPLOAD, fault })
      await drive.fails(change)
      expect(await shown()).toEqual(BEFORE)
      bench.service.proxy.clear()
      await nothingWaits()
      expect(await shown()).toEqual(BEFORE)
      expect(await bench.service.contents()).toEqual(BEFORE)
    },
  )

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

  it.each(casesOf(DOUBTS))(
    'that may have arrived succeeds, and is carried out: $change, $how',
    async ({ change, after, fault }) => {
      bench.service.proxy.add({ match: UPLOAD, fault })
      await drive.sh(change)
      expect(await shown()).toEqual(after)
      await expect.poll(() => drive.log).toContain('is not stored yet, and goes on')
      const name = Object.keys(after)[0] ?? ''
      const state = (): Promise<string> =>
        drive.sh(`getfattr --only-values -n user.bagfs.state ${name}`)
      await expect.poll(state).toMatch(/^failed: .*\(will be tried again\)$/)
      bench.service.proxy.clear()
      await expect.poll(() => bench.service.contents().catch(String)).toEqual(after)
      await nothingWaits()
      expect(await shown()).toEqual(after)
    },
  )

  it.each(CHANGES)(
    'that arrived succeeds although its answer was lost: $change',
    async ({ change, after }) => {
      bench.service.proxy.add({ match: UPLOAD, times: 1, fault: { loseAnswer: true } })
      await drive.sh(change)
      expect(await shown()).toEqual(after)
      await expect.poll(() => bench.service.contents().catch(String)).toEqual(after)
      await nothingWaits()
      const posts = bench.service.proxy.requests.filter(({ method }) => method === 'POST')
      expect(posts).toHaveLength(1)
    },
  )

  it('that fails takes no description away, and a description that fails changes nothing', async () => {
    const describeIt = 'setfattr -n user.bagfs.description -v better source'
    const described = 'getfattr --only-values -n user.bagfs.description source'
    bench.service.proxy.add({
      match: UPLOAD,
      fault: REFUSALS['is answered with 500'] ?? {},
    })
    await drive.fails(describeIt)
    expect(await drive.sh(described)).toBe('')
    await drive.fails('mv source moved')
    bench.service.proxy.clear()
    await nothingWaits()
    await drive.sh(describeIt)
    expect(await drive.sh(described)).toBe('better')
  })

  it.each([500, 422])(
    'that fails leaves what waits under its name, and what is stored under the other (%s)',
    async (status) => {
      bench.service.proxy.add({ match: UPLOAD, fault: { answer: { status } } })
      await drive.fails('echo new | cp /dev/stdin waits')
      await drive.fails('mv -f waits taken')
      await drive.sh('echo newer | cp /dev/stdin step.tmp')
      await drive.fails('mv -f step.tmp taken')
      const left = { ...BEFORE, waits: 'new\n', 'step.tmp': 'newer\n' }
      expect(await shown()).toEqual(left)
      bench.service.proxy.clear()
      await bench.bagfs(['outbox', 'retry'])
      await nothingWaits()
      expect(await shown()).toEqual(left)
      expect(await bench.service.contents()).toEqual(left)
      await drive.sh('mv -f step.tmp taken; mv waits moved')
      await nothingWaits()
      const after = { source: 'source\n', taken: 'newer\n', moved: 'new\n' }
      expect(await bench.service.contents()).toEqual(after)
    },
  )

  it('that fails because the service is away leaves both, too', async () => {
    await bench.service.proxy.down()
    await drive.fails('echo new | cp /dev/stdin waits')
    await drive.fails('mv -f waits taken')
    const left = { ...BEFORE, waits: 'new\n' }
    expect(await shown()).toEqual(left)
    await bench.service.proxy.up()
    await nothingWaits()
    expect(await bench.service.contents()).toEqual(left)
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
