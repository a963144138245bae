import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'

const JSON_TYPE = { 'content-type': 'application/json' }
const REFUSALS = {
  'a refusal (422)': {
    status: 422,
    headers: JSON_TYPE,
    body: '{"detail":[{"loc":["body","file"],"msg":"No.","type":"validation_error"}]}',
  },
  'an error of its own (500)': { status: 500, headers: JSON_TYPE, body: '{"detail":"Broken."}' },
  'no bag id': { status: 200, headers: JSON_TYPE, body: '{}' },
} as const
const MODES = { through: [], back: ['--write-back'] } as const

/** How new content takes the place of `$t`, a stored file; `$d` is another one. These commands may fail. */
const WAYS = {
  write: 'echo new >$t',
  append: 'echo more >>$t',
  rename: 'mv $t $t-elsewhere',
  'rename-over': 'mv -f $d $t',
  'rename-new-over': 'echo new >$t-new; mv -f $t-new $t',
  save: 'echo new >$t.tmp; mv -f $t.tmp $t',
} as const

const CASES = Object.entries(MODES).flatMap(([mode, args]) =>
  Object.entries(REFUSALS).map(([refusal, answer]) => ({ mode, args, refusal, answer })),
)

/** Out of a folder that is empty then, from folder to folder and back, into a folder, and a folder as a whole. */
const MOVES = [
  ['a/a', 'a-out'],
  ['into/into', 'b/into'],
  ['b/b', 'into/b'],
  ['root', 'into/root'],
  ['whole', 'into/whole'],
  ['full', 'b/full'],
  ['dir', 'into/dir'],
] as const

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

/** An unlink of an open file is sent a second later: until then, whatever was to be deleted before is. */
async function untilLateDeletesAreSent(drive: MountedDrive): Promise<void> {
  await drive.sh('exec 3<last; rm last; exec 3<&-')
  await expect.poll(async () => (await stored()).has('last'), { timeout: 20_000 }).toBe(false)
}

async function stored(): Promise<ReadonlyMap<string, string>> {
  return new Map((await bench.service.list()).map(({ filename, bag_id }) => [filename, bag_id]))
}

describe.runIf(canMount())('bags that new content takes the place of', () => {
  it.each(CASES)(
    'stay while the service answers uploads with $refusal (mode $mode)',
    async ({ answer, args }) => {
      const drive = await prepare(args)
      for (const { name, isOpen } of TARGETS) {
        if (isOpen) open.push(await OpenFile.open(`${drive.path}/${name}`, 'os.O_RDONLY'))
      }
      const before = new Map(await stored())
      before.delete('last')
      bench.service.proxy.add({ match: { method: 'POST' }, fault: { answer } })
      for (const { name, command } of TARGETS) {
        await drive.sh(`t=${name}; d=doc-${name}; (${command}) 2>/dev/null || true`)
      }
      await drive.sh('echo new >folder/file; echo more >folder/more')
      await bench.bagfs(['sync', drive.path])
      await untilLateDeletesAreSent(drive)
      expect(new Map(await stored())).toEqual(before)
      await expect.poll(() => bench.service.deletes()).toBe(1)
    },
    120_000,
  )

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

  it.each(CASES)(
    'stay while what moved elsewhere is not stored there, with $refusal (mode $mode)',
    async ({ answer, args }) => {
      const first = await bench.mount('--write-back', '--folder-settle', '100ms')
      await first.sh(
        'for n in a b whole into full; do mkdir $n; echo $n >$n/$n; done; echo r >root',
      )
      await first.leave()
      const drive = await bench.mount('--folder-settle', '100ms', ...args)
      await drive.sh('mkdir empty; mkdir dir; echo dir >dir/dir')
      expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
      const before = await stored()
      bench.service.proxy.add({ match: { method: 'POST' }, fault: { answer } })
      for (const [from, to] of MOVES) await drive.sh(`mv ${from} ${to} 2>/dev/null || true`)
      await bench.bagfs(['sync', drive.path])
      expect(await stored()).toEqual(before)
      expect(bench.service.deletes()).toBe(0)
      bench.service.proxy.clear()
      for (const [from, to] of MOVES) {
        await drive.sh(`[ -e ${from} ] && mv ${from} ${to} || [ -e ${to} ]`)
      }
      await bench.bagfs(['outbox', 'retry'])
      await expect
        .poll(async () => (await bench.bagfs(['sync', drive.path])).code, { timeout: 60_000 })
        .toBe(0)
      expect([...(await stored()).keys()].sort()).toEqual(['a-out', 'b', 'into'])
    },
    120_000,
  )

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
