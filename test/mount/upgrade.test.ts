import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, renameSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { parseStates } from '../../src/outbox/intent-file.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, HANGING_MS, MountedDrive } from '../support/mounted-drive.ts'

const FILES = ['a', 'b', 'c']

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
  await bench.service.upload('old', 'first\n')
})
afterEach(async () => {
  await bench.close()
})

/** The directory of the account's outbox. */
function outboxDir(): string {
  const paths = readdirSync(bench.stateDir, { recursive: true, encoding: 'utf8' })
  const outbox = paths.find((path) => path.endsWith('/outbox'))
  if (outbox === undefined) throw new Error('There is no outbox.')
  return join(bench.stateDir, outbox)
}

/** Leaves three files, an overwrite and a folder in the outbox of a drive that was killed. */
async function leaveWork(): Promise<void> {
  const drive = await bench.mount('--write-back')
  await drive.sh('cat old')
  await bench.service.proxy.down()
  for (const name of FILES) await drive.sh(`echo content ${name} > ${name}`)
  await drive.sh('echo second > old; mkdir F; echo inside > F/x')
  await drive.kill()
}

/** Puts the outbox back into the form that layout 0 had: no directory of a version, fewer fields. */
function makeOlder(): number {
  const outbox = outboxDir()
  const ids = readdirSync(join(outbox, 'v2'))
  for (const id of ids) {
    renameSync(join(outbox, 'v2', id), join(outbox, id))
    const path = join(outbox, id, 'intent.json')
    const { version, supersedes, ...older }: Record<string, unknown> = {
      ...parseStates(readFileSync(path, 'utf8')).intent,
    }
    expect([version, supersedes]).toEqual([1, []])
    writeFileSync(path, JSON.stringify(older))
  }
  rmdirSync(join(outbox, 'v2'))
  return ids.length
}

/** Starts a drive that is to die while it takes the outbox over. */
async function dieAt(step: string): Promise<void> {
  const drive = MountedDrive.spawn(
    { url: bench.service.proxy.url, token: bench.service.token },
    { mountpoint: bench.mountpoint, stateDir: bench.stateDir },
    [],
    { BAGFS_CRASH_AT: step },
  )
  if (drive.process.signalCode === null) {
    await once(drive.process, 'exit', { signal: AbortSignal.timeout(HANGING_MS) })
  }
  expect(drive.process.signalCode).toBe('SIGKILL')
}

describe.runIf(canMount())('an outbox of an older version', () => {
  it('is taken over by a mount, however often it is killed meanwhile, and all of it is sent', async () => {
    await leaveWork()
    const entries = makeOlder()
    expect(entries).toBe(FILES.length + 2)
    await bench.service.proxy.up()
    await dieAt('migrate.moved:1')
    await dieAt('migrate.moved:2')
    expect(readdirSync(join(outboxDir(), 'v2'))).toHaveLength(3)
    const drive = await bench.mount('--listing-lag', '1s')
    expect(await drive.sh(`cat ${FILES.join(' ')} old F/x`)).toBe(
      'content a\ncontent b\ncontent c\nsecond\ninside\n',
    )
    await expect
      .poll(async () => (await bench.service.list()).map(({ filename }) => filename).sort())
      .toEqual(['F', ...FILES, 'old'])
    expect((await bench.service.contentOf('old')).toString()).toBe('second\n')
    await drive.leave()
    expect(readdirSync(outboxDir())).toEqual(['v2'])
  })

  it('of a newer one stops the mount with one sentence, and stays as it is', async () => {
    await leaveWork()
    await bench.service.proxy.up()
    const newer = join(outboxDir(), 'v3', '00000000000000001')
    mkdirSync(newer, { recursive: true })
    const outcome = await bench.mountBy('--foreground')
    expect(outcome.code).toBe(1)
    expect(outcome.stderr).toMatch(/newer version of bagfs; use that one/)
    expect(readdirSync(join(outboxDir(), 'v2'))).toHaveLength(FILES.length + 2)
    expect(bench.service.uploads()).toEqual(['old'])
  })
})
