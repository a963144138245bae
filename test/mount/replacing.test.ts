import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { FaultProxy, SeenRequest } from '../support/fault-proxy.ts'
import { deferred } from '../../src/domain/deferred.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'
import { REFUSALS } from '../support/refusals.ts'

const MODES = { through: [], back: ['--write-back'] } as const

/** How new content takes the place of `$t`, a stored file; `$d` is another one. */
const WAYS = {
  write: 'echo new >$t',
  append: 'echo more >>$t',
  rename: 'mv $t $t-elsewhere',
  'rename-over': 'mv -f $d $t',
  'rename-new-over': 'echo new >$t-new; mv -f $t-new $t',
  save: 'echo new >$t.tmp; mv -f $t.tmp $t',
} as const

let bench: Bench
const open: OpenFile[] = []
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  for (const file of open.splice(0)) file.end()
  await bench.close()
})

/** For each way a file that is closed and one that a program holds open, and a folder. */
const TARGETS = Object.entries(WAYS).flatMap(([way, command]) =>
  ['closed', 'open'].map((state) => ({
    name: `${way}-${state}`,
    isOpen: state === 'open',
    command,
  })),
)

async function prepare(args: readonly string[]): Promise<MountedDrive> {
  const drive = await bench.mount('--write-back', '--folder-settle', '100ms')
  const names = TARGETS.map(({ name }) => name).join(' ')
  await drive.sh(`for n in ${names}; do echo $n >$n; echo doc-$n >doc-$n; done; echo last >last`)
  await drive.sh('mkdir folder; echo file >folder/file')
  await drive.leave()
  return bench.mount('--folder-settle', '100ms', ...args)
}

/** Looks at the drive until it asks for a listing, and has it. */
async function anotherListing(drive: MountedDrive): Promise<void> {
  const { requests } = bench.service.proxy
  const isListed = ({ path, isOver }: SeenRequest): boolean =>
    isOver && path.endsWith('/files_list')
  const before = requests.length
  const asked = async (): Promise<boolean> => {
    await drive.sh('ls')
    return requests.slice(before).some(isListed)
  }
  await expect.poll(asked).toBe(true)
}

/** Uploads wait at the proxy, and pass one by one. */
class Uploads {
  readonly #proxy: FaultProxy
  readonly #waiting: (() => void)[] = []
  #arrived = 0

  constructor(proxy: FaultProxy) {
    this.#proxy = proxy
    const before = (): Promise<void> =>
      new Promise((resolve) => {
        this.#arrived += 1
        this.#waiting.push(resolve)
      })
    this.#proxy.add({ match: { method: 'POST' }, fault: { before } })
  }

  async arrived(count: number): Promise<void> {
    await expect.poll(() => this.#arrived).toBe(count)
  }

  pass(): void {
    this.#waiting.shift()?.()
  }
}

/** An unlink of an open file is sent a second later: until then, whatever was to be deleted before is. */
async function untilLateDeletesAreSent(drive: MountedDrive): Promise<void> {
  await drive.sh('exec 3<last; rm last; exec 3<&-')
  await expect.poll(async () => (await stored()).has('last')).toBe(false)
}

async function stored(): Promise<ReadonlyMap<string, string>> {
  return new Map((await bench.service.list()).map(({ filename, bag_id }) => [filename, bag_id]))
}

/** Refusals of what takes their place are in unit/drive/replaced-bags. */
describe.runIf(canMount())('bags that new content takes the place of', () => {
  it('go once the new content is there, and not before, in every way', async () => {
    const drive = await prepare(MODES.back)
    for (const { name, isOpen } of TARGETS) {
      if (isOpen) open.push(await OpenFile.open(`${drive.path}/${name}`, 'os.O_RDONLY'))
    }
    for (const { name, command } of TARGETS) await drive.sh(`t=${name}; d=doc-${name}; ${command}`)
    await drive.sh('echo new >folder/file')
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    await untilLateDeletesAreSent(drive)
    const names = [...(await stored()).keys()].sort()
    const elsewhere = (name: string): string =>
      /^rename-(?:open|closed)$/.test(name) ? `${name}-elsewhere` : name
    const docs = TARGETS.filter(({ name }) => !name.startsWith('rename-over')).map(
      ({ name }) => `doc-${name}`,
    )
    expect(names).toEqual(['folder', ...docs, ...TARGETS.map(({ name }) => elsewhere(name))].sort())
  })

  it('go when the content is toggled while it is sent, though the service gives an id a second time', async () => {
    const drive = await bench.mount('--write-back', '--listing-ttl', '100ms')
    await drive.sh('echo on >f')
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    const uploads = new Uploads(bench.service.proxy)
    await drive.sh('ls; echo off >f')
    await uploads.arrived(1)
    await drive.sh('echo on >f')
    uploads.pass()
    await uploads.arrived(2)
    await drive.sh('echo off >f')
    uploads.pass()
    await uploads.arrived(3)
    // What it says of the first bag is of its second upload.
    await anotherListing(drive)
    uploads.pass()
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    await expect.poll(async () => [...(await stored()).keys()]).toEqual(['f'])
    expect(await drive.sh('ls; cat f')).toBe('f\noff\n')
    expect(await bench.service.list()).toHaveLength(1)
  })

  it.each([
    ['overwritten', 'echo last >f', ['last\n']],
    ['toggled once more', 'echo off >f', ['off\n']],
    ['removed', 'rm f', []],
  ])(
    'go when content that is toggled is %s while it is sent, and the drive is killed then',
    async (_, command, left) => {
      const args = ['--write-back', '--listing-ttl', '60s', '--listing-lag', '1s']
      const drive = await bench.mount(...args)
      for (const content of ['on', 'off']) {
        await drive.sh(`echo ${content} >f`)
        expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
      }
      const sending = deferred()
      const mayPass = deferred()
      bench.service.proxy.add({
        match: { method: 'POST' },
        times: 1,
        fault: {
          before: () => {
            sending.resolve()
            return mayPass.promise
          },
          at: {
            moment: 'answered',
            act: () => {
              drive.signal('SIGKILL')
            },
          },
        },
      })
      await drive.sh('echo on >f')
      await sending.promise
      await drive.sh(command)
      mayPass.resolve()
      await drive.ended()
      await drive.kill()
      const next = await bench.mount(...args)
      expect((await bench.bagfs(['sync', next.path])).code).toBe(0)
      const records = await bench.service.list()
      const contents = records.map(({ bag_id }) => bench.service.content(bag_id))
      expect((await Promise.all(contents)).map(String)).toEqual(left)
      expect(await next.sh('cat * 2>/dev/null || true')).toBe(left.join(''))
    },
  )

  it('go when the content is toggled within the age of one listing', async () => {
    const drive = await bench.mount('--listing-ttl', '2s')
    await drive.sh('echo on >f')
    await anotherListing(drive)
    await drive.sh('echo off >f; echo on >f')
    const uploads = new Uploads(bench.service.proxy)
    const closed = drive.sh('echo off >f')
    await uploads.arrived(1)
    await anotherListing(drive)
    uploads.pass()
    await closed
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    expect(await bench.service.list()).toHaveLength(1)
    expect(await drive.sh('ls; cat f')).toBe('f\noff\n')
  })

  it('and the file itself stay as they were when a rename is refused, also for programs that write them', async () => {
    const drive = await prepare(MODES.through)
    for (const name of ['doc-write-open', 'write-open']) {
      open.push(await OpenFile.open(`${drive.path}/${name}`, 'os.O_RDWR'))
    }
    const lift = bench.service.proxy.add({
      match: { method: 'POST' },
      fault: { answer: REFUSALS['a refusal (422)'] },
    })
    const { stderr } = await drive.fails('mv -f doc-write-open write-open')
    expect(stderr).toContain('Input/output error')
    lift()
    const [doc, taken] = open
    expect(await doc?.writeAt(0, 'DOC')).toBe('ok 3')
    expect(await doc?.close()).toBe('ok None')
    expect(await drive.sh('cat doc-write-open write-open')).toBe('DOC-write-open\nwrite-open\n')
    expect(await taken?.close()).toBe('ok None')
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    expect((await bench.service.contentOf('doc-write-open')).toString()).toBe('DOC-write-open\n')
    expect((await bench.service.contentOf('write-open')).toString()).toBe('write-open\n')
  })
})
