import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

/** Nothing is packed but by a sync. */
const USUAL = ['--listing-ttl', '100ms', '--folder-settle', '1h', '--timeout', '1s']
/** What is gone is believed to be gone when it is so twice. */
const SOON = ['--listing-lag', '1ms']

/** Lists a zip by a program that is not ours: each file with the beginning of its content, or its length. */
const LIST = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    for i in z.infolist():
        if not i.is_dir(): print(i.filename, z.read(i)[:3].decode().strip().replace('\\n', '+') if i.file_size < 9 else i.file_size)`

const LARGE = 4 * 1024 * 1024
/** What another machine makes of the folder: x goes, w is another one of the same size, k stays as it is. */
const REPLACES = `echo b >f/y; rm f/x; head -c ${LARGE} /dev/urandom >f/w`
const SMALL = 'd/link d/s, d/small k'

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  await bench.close()
})

/** What the zip of each bag at the service holds. */
async function stored(): Promise<readonly string[]> {
  const zip = join(bench.dir, 'looked-at.zip')
  const held: string[] = []
  for (const { bag_id } of await bench.service.list()) {
    writeFileSync(zip, await bench.service.content(bag_id))
    const listed = execFileSync('python3', ['-c', LIST, zip]).toString()
    held.push(listed.trim().split('\n').sort().join(', '))
  }
  return held.sort()
}

async function sync(drive: MountedDrive): Promise<number | undefined> {
  return (await bench.bagfs(['sync', drive.path])).code
}

async function untilSynced(drive: MountedDrive): Promise<void> {
  await expect.poll(() => sync(drive)).toBe(0)
}

/** Another machine stores the folder f: x, w and k are large and random, the rest is at its end. */
async function storeFolder(): Promise<MountedDrive> {
  const b = await bench.mountOther(...USUAL)
  await b.sh(`mkdir f f/d; for i in x w k; do head -c ${LARGE} /dev/urandom >f/$i; done`)
  await b.sh('echo k >f/d/small; ln -s d/small f/d/link; echo 0 >f/y')
  expect(await sync(b)).toBe(0)
  return b
}

/** Mounts and looks at y; what this machine has of the zip is its end. */
async function mountAndLook(...args: readonly string[]): Promise<MountedDrive> {
  const a = await bench.mount(...USUAL, ...args)
  await expect.poll(() => a.sh('cat f/y')).toBe('0\n')
  await a.sh('ls -R f')
  return a
}

/** Of the only account. */
function cacheDir(): string {
  const names = readdirSync(bench.stateDir)
  const [account = ''] = names.filter((name) => existsSync(join(bench.stateDir, name, 'cache')))
  return join(bench.stateDir, account, 'cache')
}

/** Resolves when the next process finds what was read of the zip. */
async function untilKept(): Promise<void> {
  const isKept = (): boolean =>
    readdirSync(cacheDir(), { recursive: true }).some((name) => name.toString().endsWith('.ranges'))
  await expect.poll(isKept).toBe(true)
}

/** What another machine does to the folder is stored, and the bag that was there before is gone. */
async function replaceFolder(b: MountedDrive, command: string): Promise<void> {
  const before = await bench.service.list()
  await b.sh(command)
  expect(await sync(b)).toBe(0)
  const after = new Set((await bench.service.list()).map(({ bag_id }) => bag_id))
  expect(before.filter(({ bag_id }) => after.has(bag_id))).toEqual([])
}

function leftOut(path: string): string {
  return `f/${path} is left out: another machine removed the version of f that it was in`
}

async function expectTold(drive: MountedDrive, words: string): Promise<void> {
  expect(await drive.sh('cat .bagfs/status')).toContain(`Missing:  ${words}\n`)
  expect(drive.log).toContain(words)
}

/** What a drive does without a kill is proved in unit/drive/folders/base-gone. */
describe.runIf(canMount())('changes of a folder that another machine replaced meanwhile', () => {
  it('are stored so by the next mount after a kill', async () => {
    const b = await storeFolder()
    const killed = await mountAndLook(...SOON)
    await killed.sh('echo a >f/y')
    await untilKept()
    await killed.kill()
    await replaceFolder(b, REPLACES)
    const a = await bench.mount(...USUAL, ...SOON)
    await untilSynced(a)
    expect(await stored()).toEqual([
      `${SMALL}, k ${LARGE}, w ${LARGE}, y b`,
      `${SMALL}, k ${LARGE}, y a`,
    ])
    await expectTold(a, leftOut('x'))
  })

  it('are stored once when the drive is killed between packing and storing', async () => {
    const b = await storeFolder()
    const killed = await bench.mountKilledAt('folder.packed', ...USUAL, ...SOON)
    await expect.poll(() => killed.sh('cat f/y')).toBe('0\n')
    await killed.sh('echo a >f/y')
    await untilKept()
    await replaceFolder(b, REPLACES)
    while (
      killed.isMounted &&
      killed.process.exitCode === null &&
      killed.process.signalCode === null
    )
      await sync(killed)
    await killed.kill()
    const a = await bench.mount(...USUAL, ...SOON)
    await untilSynced(a)
    expect(await stored()).toEqual([
      `${SMALL}, k ${LARGE}, w ${LARGE}, y b`,
      `${SMALL}, k ${LARGE}, y a`,
    ])
    expect(await a.sh('cat f/y; ls f')).toBe('a\nd\nk\ny\n')
  })
})
