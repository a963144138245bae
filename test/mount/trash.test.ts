import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type Outcome } from '../support/mounted-drive.ts'

const STAMP = String.raw`\d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d`

describe.runIf(canMount())('the trash', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })
  const bagfs = (...args: readonly string[]): Promise<Outcome> => bench.bagfs(args)

  it('shows what was deleted and replaced, newest first, to be read like any file', async () => {
    const drive = await bench.mount()
    await drive.sh(
      'printf old > report.txt; printf newer > report.txt; mkdir folder; echo a > folder/a',
    )
    await bagfs('sync', bench.mountpoint)
    await drive.sh('rm -r folder')
    // Names and times have whole seconds.
    await drive.sh('sleep 1.1; rm report.txt')
    await expect.poll(() => drive.sh('ls .bagfs/trash | wc -l')).toBe('3\n')
    const names = (await drive.sh('ls -t .bagfs/trash')).trimEnd().split('\n')
    expect(names[0]).toMatch(new RegExp(`^${STAMP} report\\.txt$`))
    expect(names.filter((name) => name.endsWith(' folder.zip'))).toHaveLength(1)
    expect(await drive.sh(`cat ".bagfs/trash/${names[0] ?? ''}"`)).toBe('newer')
    expect(await drive.sh('ls -U .bagfs/trash | head -1')).toBe(`${names[0] ?? ''}\n`)
    expect(await drive.sh('cd .bagfs/trash && unzip -p *folder.zip a')).toBe('a\n')
    const listed = await bagfs('trash')
    expect(listed.stdout).toMatch(
      new RegExp(`^${bench.mountpoint}:\n  [0-9a-f]{8}  ${names[0] ?? ''}  5 B, deleted\n`),
    )
    expect(listed.stdout).toContain(' folder  folder, ')
    expect(listed.stdout).toContain('  3 B, replaced')
    expect((await bagfs('status')).stdout).toMatch(
      /^Trash: {4}3 items, \d+ kB, each kept for 24 h$/m,
    )
    expect((await drive.fails('rm .bagfs/trash/*folder.zip')).stderr).toContain('not permitted')
  })

  it('gives back what a person names, and takes the place of nothing unasked', async () => {
    const drive = await bench.mount()
    await drive.sh('printf one > a.txt; printf two > a.txt; mkdir folder; echo a > folder/a')
    await bagfs('sync', bench.mountpoint)
    await drive.sh('rm -r folder')
    await expect.poll(() => drive.sh('ls .bagfs/trash | wc -l')).toBe('2\n')
    const taken = await bagfs('trash', 'restore', 'a.txt')
    expect(taken.code).toBe(1)
    expect(taken.stderr).toContain('--as NAME')
    expect((await bagfs('trash', 'restore', 'nothing')).code).toBe(4)
    expect(await bagfs('trash', 'restore', 'a.txt', '--as', 'b.txt')).toMatchObject({ code: 0 })
    expect(await bagfs('trash', 'restore', 'folder')).toMatchObject({ code: 0 })
    expect(await drive.sh('cat a.txt b.txt folder/a')).toBe('twoonea\n')
    await drive.sh('printf three > a.txt')
    await expect.poll(() => drive.sh('cat .bagfs/trash/*a.txt')).toBe('two')
    expect(await bagfs('trash', 'restore', 'a.txt', '--replace')).toMatchObject({ code: 0 })
    await expect.poll(() => drive.sh('cat a.txt .bagfs/trash/*a.txt')).toBe('twothree')
    await expect
      .poll(async () => Object.keys(await bench.service.contents()).sort())
      .toEqual(['a.txt', 'b.txt', 'folder'])
    const unsaid = await bagfs('trash', 'empty')
    expect(unsaid).toMatchObject({ code: 2, stdout: '' })
    expect(unsaid.stderr).toContain('--yes')
    expect((await bagfs('trash', 'empty', '--yes')).stderr).toBe('Removed 1 item for good.')
    expect((await bagfs('trash', 'empty')).stderr).toBe('The trash is empty.')
    expect((await bagfs('trash')).stderr).toBe('The trash is empty.')
    expect(await drive.sh('ls .bagfs/trash')).toBe('')
    for (const verb of ['list', 'restore']) {
      const { code, stderr } = await bagfs('trash', verb, 'drive')
      expect(code).toBe(4)
      expect(stderr).toContain('nothing called drive.')
      expect(stderr).toContain('A drive is named by its path, such as ./drive.')
    }
  })

  it('gives back each that a person names, also while the service takes none of them', async () => {
    const drive = await bench.mount()
    await drive.sh('printf one > a; printf two > b; rm a b')
    await expect.poll(() => drive.sh('ls .bagfs/trash | wc -l')).toBe('2\n')
    const heal = bench.service.proxy.add({
      match: { method: 'POST' },
      fault: { answer: { status: 503, body: '{"detail":"busy"}' } },
    })
    const restored = await bagfs('trash', 'restore', 'a', 'b')
    expect(restored.code).not.toBe(0)
    expect(restored.stderr).toContain('bagfs: not stored: a: a is back, and waits in the outbox')
    expect(restored.stderr).toContain('2 of 2 were not stored.')
    expect(await drive.sh('cat a b')).toBe('onetwo')
    const saved = join(bench.stateDir, '..', 'saved', 'here')
    expect(await bagfs('outbox', 'save', 'a', 'b', '--to', saved)).toMatchObject({ code: 0 })
    expect(await readFile(join(saved, 'a'), 'utf8')).toBe('one')
    heal()
    expect(await bagfs('sync', bench.mountpoint)).toMatchObject({ code: 0 })
    expect(await bench.service.contents()).toEqual({ a: 'one', b: 'two' })
    await bagfs('umount', bench.mountpoint)
    expect((await bagfs('log')).stderr).toContain('bagfs log MOUNTPOINT')
  })

  it('is there with no drive mounted; what is restored then is sent by the next mount', async () => {
    const drive = await bench.mount()
    await drive.sh('printf one > a; printf two > b; rm a b; printf three > b')
    await bagfs('umount', bench.mountpoint)
    const state = ['--state-dir', bench.stateDir]
    expect((await bagfs('trash', ...state)).stdout).toMatch(
      / b {2}3 B, deleted\n.* a {2}3 B, deleted/,
    )
    expect((await bagfs('trash', 'restore', 'b', ...state)).stderr).toContain('already')
    expect(await bagfs('trash', 'restore', 'a', ...state)).toMatchObject({ code: 0 })
    for (const [typed, told] of [
      ['\r', 'Nothing was changed.'],
      ['y\r', 'Removed 1 item for good.'],
    ] as const) {
      const terminal = bench.atTerminal(['trash', 'empty', 'b', ...state])
      await terminal.answer('Remove 1 item (3 B) for good? [y/N]', typed)
      expect((await terminal.end()).shown).toContain(told)
    }
    expect((await bagfs('trash', ...state)).stderr).toBe('The trash is empty.')
    await bench.mount()
    await expect.poll(() => bench.service.contents()).toEqual({ a: 'one', b: 'three' })
  })
})
