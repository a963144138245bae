import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeEach, describe, expect, it } from 'vitest'
import { describeLeftOut } from '../../../../src/drive/folders/left-out.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import type { DriveInProcess } from '../../../support/drive-in-process.ts'

/** What is gone is believed to be gone when it is so twice. */
const SOON = 1
const NEVER = 600_000
const LARGE = 1024 * 1024
const SMALL = 'd/link d/s, d/small k'

/** Lists a zip by a program that is not ours: each file with the beginning of its content, or its length. */
const LIST = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    for i in z.infolist():
        if not i.is_dir(): print(i.filename, z.read(i)[:3].decode().strip().replace('\\n', '+') if i.file_size < 9 else i.file_size)`

let account: AccountInProcess
beforeEach(async () => {
  account = await AccountInProcess.start()
})

/** What the zip of each bag at the service holds. */
async function stored(): Promise<readonly string[]> {
  const zip = join(account.dir, 'looked-at.zip')
  const held: string[] = []
  for (const { bag_id } of await account.service.list()) {
    writeFileSync(zip, await account.service.content(bag_id))
    const { stdout } = await promisify(execFile)('python3', ['-c', LIST, zip])
    held.push(stdout.trim().split('\n').sort().join(', '))
  }
  return held.sort()
}

function open(state: string, listingLagMs = SOON): Promise<DriveInProcess> {
  const settings = { listingTtlMs: 100, listingLagMs }
  return account.open(
    { writeBack: false, settings, limits: { timeoutMs: 1_000, cacheBytes: 1e8 } },
    state,
  )
}

/** Whether the service has everything. */
function sync({ drive }: DriveInProcess): Promise<boolean> {
  return drive.commands.sync().then(
    () => true,
    () => false,
  )
}

async function untilSynced(drive: DriveInProcess): Promise<void> {
  await expect.poll(() => sync(drive)).toBe(true)
}

/** Another machine stores the folder f: x, w and k are large and random, the rest is at its end. */
async function storeFolder(): Promise<DriveInProcess> {
  const b = await open('b')
  await b.makeDirectory('f')
  await b.makeDirectory('f/d')
  for (const name of ['x', 'w', 'k']) await b.write(`f/${name}`, randomBytes(LARGE))
  await b.write('f/d/small', 'k\n')
  await b.drive.makeSymlink(await b.node('f/d'), 'link', 'd/small')
  await b.write('f/y', '0\n')
  expect(await sync(b)).toBe(true)
  return b
}

/** Opens a drive and looks at y; what this machine has of the zip is its end. */
async function openAndLook(listingLagMs?: number): Promise<DriveInProcess> {
  const a = await open('a', listingLagMs)
  expect(await a.read('f/y')).toBe('0\n')
  await a.names('f/d')
  return a
}

/** What another machine makes of the folder: x goes, w is another one of the same size, k stays as it is. */
async function replaceIn(b: DriveInProcess): Promise<void> {
  await b.write('f/y', 'b\n')
  await b.remove('f/x')
  await b.write('f/w', randomBytes(LARGE))
}

/** What another machine does to the folder is stored, and the bag that was there before is gone. */
async function store(b: DriveInProcess, change: (b: DriveInProcess) => Promise<void>) {
  const before = await account.service.list()
  await change(b)
  expect(await sync(b)).toBe(true)
  const after = new Set((await account.service.list()).map(({ bag_id }) => bag_id))
  expect(before.filter(({ bag_id }) => after.has(bag_id))).toEqual([])
}

function removeFolder(b: DriveInProcess): Promise<void> {
  return b.remove('f')
}

function leftOut(path: string): string {
  return `f/${path} is left out: another machine removed the version of f that it was in`
}

function told({ drive }: DriveInProcess): readonly string[] {
  return drive.commands.leftOut.list().map(describeLeftOut).sort()
}

describe('changes of a folder that another machine replaced meanwhile', () => {
  it('are stored with what is still to be had, and what is nowhere is told', async () => {
    const b = await storeFolder()
    const a = await openAndLook()
    await a.write('f/y', 'a\n')
    await store(b, replaceIn)
    await untilSynced(a)
    const theirs = `${SMALL}, k ${LARGE}, w ${LARGE}, y b`
    expect(await stored()).toEqual([theirs, `${SMALL}, k ${LARGE}, y a`])
    expect(told(a)).toEqual([leftOut('w'), leftOut('x')])
    expect(await a.names('f')).toEqual(['d', 'k', 'y'])
    expect(await a.read('f/y')).toBe('a\n')
    const other = (await a.names()).find((name) => name !== 'f') ?? ''
    expect(await a.read(`${other}/y`)).toBe('b\n')
    expect((await a.read('f/k')) === (await a.read(`${other}/k`))).toBe(true)
    await a.append('f/y', '1\n')
    expect(await sync(a)).toBe(true)
    expect(await stored()).toEqual([theirs, `${SMALL}, k ${LARGE}, y a+1`])
  })

  it('are all that is stored when nothing here tells what was in the folder', async () => {
    const b = await storeFolder()
    const killed = await openAndLook()
    await killed.write('f/y', 'a\n')
    await killed.write('f/d/new', 'n\n')
    await killed.rename('f/d', 'f/e')
    await killed.write('f/e/more', 'm\n')
    await killed.remove('f/x')
    await killed.drop()
    rmSync(join(account.dir, 'a', 'cache'), { recursive: true })
    await store(b, replaceIn)
    const a = await open('a')
    await untilSynced(a)
    expect(await stored()).toEqual([
      `${SMALL}, k ${LARGE}, w ${LARGE}, y b`,
      'e/more m, e/new n, y a',
    ])
    expect(told(a)).toEqual([
      'what was not changed here in f is left out: another machine removed the version of f that it was in',
    ])
    expect(await a.read('f/y')).toBe('a\n')
    expect(await a.read('f/e/more')).toBe('m\n')
    const other = (await a.names()).find((name) => name !== 'f') ?? ''
    expect(await a.names(other)).toEqual(['d', 'k', 'w', 'y'])
  })
})

describe('changes of a folder that another machine removed meanwhile', () => {
  it('are stored with what is on this machine', async () => {
    const b = await storeFolder()
    const a = await openAndLook()
    await a.write('f/y', 'a\n')
    await a.rename('f/k', 'f/moved')
    await a.write('f/d/new', 'n\n')
    await store(b, removeFolder)
    await untilSynced(a)
    expect(await stored()).toEqual([`d/link d/s, d/new n, d/small k, y a`])
    expect(told(a)).toContain(leftOut('x'))
    expect(told(a)).toContain(leftOut('moved'))
    expect(await a.names('f')).toEqual(['d', 'y'])
  })

  it('leave it empty when nothing of it is to be had, and it takes new ones', async () => {
    const b = await open('b')
    await b.makeDirectory('f')
    await b.write('f/x', randomBytes(LARGE))
    await b.write('f/y', '0\n')
    expect(await sync(b)).toBe(true)
    const a = await open('a')
    expect(await a.read('f/y')).toBe('0\n')
    await a.remove('f/y')
    await store(b, removeFolder)
    await untilSynced(a)
    expect(await stored()).toEqual([])
    expect(await a.names('f')).toEqual([])
    expect(told(a)).toEqual([leftOut('x')])
    await a.write('f/new', 'n\n')
    await untilSynced(a)
    expect(await stored()).toEqual(['new n'])
  })
})

describe('a folder of another machine that was emptied here', () => {
  it('takes new content, though its old version is gone and was never downloaded', async () => {
    await storeFolder()
    const a = await openAndLook(NEVER)
    for (const name of await a.names('f')) await a.remove(`f/${name}`)
    expect(await sync(a)).toBe(true)
    expect(await stored()).toEqual([])
    await a.write('f/new', 'n\n')
    expect(await sync(a)).toBe(true)
    expect(await stored()).toEqual(['new n'])
  })
})

const DOWNLOADS = /\/bag\/download\//
const LISTINGS = /\/files_list$/
const NO_BAGS = { path: LISTINGS, fault: { answer: { status: 200, body: '[]' } } }
const answering = (path: RegExp, status: number) => ({
  path,
  fault: { answer: { status, body: '{"detail":"by the test"}' } },
})

describe('changes of a folder whose base may come back', () => {
  it.each([
    ['its downloads answer 403', [NO_BAGS, answering(DOWNLOADS, 403)], SOON],
    ['its downloads answer 500', [NO_BAGS, answering(DOWNLOADS, 500)], SOON],
    ['it is still listed', [answering(DOWNLOADS, 404)], SOON],
    ['there is no listing', [answering(LISTINGS, 500), answering(DOWNLOADS, 404)], SOON],
    ['a listing may lag', [NO_BAGS, answering(DOWNLOADS, 404)], NEVER],
  ])('wait for it, whole, while %s', async (_, faults, lag) => {
    await storeFolder()
    const a = await openAndLook(lag)
    await a.write('f/y', 'a\n')
    const { proxy } = account.service
    account.service.forgetEvents()
    const heal = faults.map(({ path, fault }) =>
      proxy.add({ match: { method: 'GET', path }, fault }),
    )
    for (let tries = 0; tries < 2; tries += 1) expect(await sync(a)).toBe(false)
    expect(account.service.uploads()).toEqual([])
    for (const isOver of heal) isOver()
    await untilSynced(a)
    expect(await stored()).toEqual([`${SMALL}, k ${LARGE}, w ${LARGE}, x ${LARGE}, y a`])
    expect(told(a)).toEqual([])
  })
})

describe('changes of a folder that are stored while its base cannot be read', () => {
  it('are done with, and what is written next is stored, too', async () => {
    await storeFolder()
    const { proxy } = account.service
    const [base] = await account.service.list()
    const killed = await openAndLook()
    await killed.write('f/d/new', 'n\n')
    const harm = [
      proxy.add({ match: { method: 'POST', path: /upload$/ }, fault: { loseAnswer: true } }),
      proxy.add({ match: { path: LISTINGS }, fault: answering(LISTINGS, 500).fault }),
    ]
    expect(await sync(killed)).toBe(false)
    await killed.drop()
    for (const isOver of harm) isOver()
    rmSync(join(account.dir, 'a', 'cache'), { recursive: true })
    // The end of the zip can be read, and not where a link of it leads to.
    const fault = answering(new RegExp(`download/${base?.bag_id}`), 500)
    const heal = proxy.add({ match: { path: fault.path }, fault: fault.fault, skip: 1 })
    const a = await open('a', NEVER)
    await untilSynced(a)
    heal()
    await a.write('f/y', 'a\n')
    await untilSynced(a)
    expect(await a.read('f/y')).toBe('a\n')
    expect(await stored()).toEqual([
      `d/link d/s, d/new n, d/small k, k ${LARGE}, w ${LARGE}, x ${LARGE}, y a`,
    ])
  })
})
