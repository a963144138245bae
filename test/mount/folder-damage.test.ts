import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

describe.runIf(canMount())('a journal of a folder with a damaged line', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })

  const found = (...args: string[]): string =>
    execFileSync('find', [bench.stateDir, ...args], { encoding: 'utf8' }).trim()

  it('is used up to there, the rest is set aside and told, and what is stored can be read', async () => {
    const drive = await bench.mount('--folder-settle', '1h')
    await drive.sh('mkdir F; echo a > F/a')
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    for (const name of ['one', 'two', 'three']) await drive.sh(`echo ${name} > F/${name}`)
    await drive.kill()
    const journal = found('-name', 'journal.jsonl')
    const lines = readFileSync(journal, 'utf8').split('\n')
    const at = lines.findIndex((line) => line.includes('"two"'))
    lines[at] = `${lines[at]?.slice(0, 10) ?? ''}\0\0`
    writeFileSync(journal, lines.join('\n'))

    const after = await bench.mount('--folder-settle', '1h')
    expect(await after.sh('ls F; cat F/a F/one')).toBe('a\none\na\none\n')
    const aside = found('-name', 'damaged-*', '-type', 'd')
    expect(readFileSync(join(aside, 'journal.jsonl'), 'utf8')).toBe(lines.slice(at).join('\n'))
    const files = execFileSync('bash', ['-c', `cat ${aside}/files/* | sort`], { encoding: 'utf8' })
    expect(files).toBe('three\ntwo\n')
    for (const told of [
      await after.sh('cat .bagfs/status'),
      (await bench.bagfs(['status', bench.mountpoint])).stdout,
      (await bench.bagfs(['outbox', 'list', '--mountpoint', bench.mountpoint])).stdout,
    ]) {
      expect(told).toContain(aside)
    }
    await after.sh('echo after > F/after')
    await after.leave()
    const offline = await bench.bagfs(['outbox', 'list', '--state-dir', bench.stateDir])
    expect(offline.stdout).toContain(aside)
    const unpacked = join(bench.dir, 'unpacked')
    await unpackFolder(bench.service, 'F', unpacked)
    expect(execFileSync('ls', [unpacked], { encoding: 'utf8' })).toBe('a\nafter\none\n')
  })
})
