import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { NodeId } from '../../../src/domain/ids.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { movedAway } from '../../../src/intents/claims.ts'
import { mayDelete } from '../../../src/intents/rules.ts'
import { withoutFailure } from '../../../src/intents/transitions.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { TestService } from '../../support/mounted-drive.ts'
import { unpackFolder } from '../../support/unpacked.ts'

let dir: string
let service: TestService
let user: DriveInProcess
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-sync-'))
  service = await TestService.start(join(dir, 'service'))
  const { token, proxy } = service
  user = await DriveInProcess.open({ url: proxy.url, token, dir, writeBack: true })
})
afterEach(async () => {
  await user.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

it('sync tries once more what was being tried already, and failed', async () => {
  const { drive } = user
  const post = { method: 'POST' }
  service.proxy.add({
    match: post,
    times: 1,
    fault: { latencyMs: 500, answer: { status: 500 } },
  })
  const { handle } = await drive.create(ROOT, 'new', 0o644)
  await drive.write(handle, Buffer.from('new'), 0)
  await drive.flush(handle)
  const posts = () => service.proxy.requests.filter(({ method }) => method === post.method)
  await expect.poll(posts).toHaveLength(1)
  await drive.commands.sync()
  expect(await service.contents()).toEqual({ new: 'new' })
  await drive.release(handle)
})

it('sync tells of no failure of a change that later ones took the place of', async () => {
  await user.drop()
  const { token, proxy } = service
  user = await DriveInProcess.open({ url: proxy.url, token, dir, writeBack: false })
  const heal = proxy.add({ match: { method: 'POST' }, fault: { cutRequestAfter: 10 } })
  const { handle } = await user.drive.create(ROOT, 'f', 0o644)
  await user.drive.write(handle, Buffer.from('one'), 0)
  await expect(user.drive.flush(handle)).rejects.toMatchObject({ code: 'unavailable' })
  await user.drive.release(handle)
  await user.drive.rename(ROOT, 'f', ROOT, 'f~')
  heal()
  await writeFile(ROOT, 'f', 'three')
  await user.drive.commands.sync()
  expect(await service.contents()).toEqual({ f: 'three', 'f~': 'one' })
})

async function writeFile(parent: NodeId, name: string, content: string): Promise<void> {
  const { drive } = user
  const { handle } = await drive.create(parent, name, 0o644)
  await drive.write(handle, Buffer.from(content), 0)
  await drive.flush(handle)
  await drive.release(handle)
}

/** The file a is stored, and gets new content. */
async function replaceStored(): Promise<void> {
  const { drive } = user
  await writeFile(ROOT, 'a', 'old')
  await drive.commands.sync()
  const handle = await user.open('a', true)
  await drive.write(handle, Buffer.from('new'), 0)
  await drive.flush(handle)
  await drive.release(handle)
}

/** The folder f with one file is stored, and emptied again. */
async function emptyStoredFolder(): Promise<void> {
  const { drive } = user
  await drive.makeDirectory(ROOT, 'f', 0o755)
  const { node } = await drive.lookup(ROOT, 'f')
  await writeFile(node, 'x', 'content')
  await drive.commands.sync()
  await drive.unlink(node, 'x')
}

const DELETE = { method: 'DELETE' }
const REFUSED = { answer: { status: 422, body: '{"detail":"by the test"}' } }

it('sync waits until the bag of an emptied folder is deleted', async () => {
  service.proxy.add({ match: DELETE, fault: { latencyMs: 500 } })
  await emptyStoredFolder()
  await user.drive.commands.sync()
  expect(await service.list()).toEqual([])
})

it('sync waits until what was replaced is deleted', async () => {
  service.proxy.add({ match: DELETE, fault: { latencyMs: 500 } })
  await replaceStored()
  await user.drive.commands.sync('a')
  expect(await service.contents()).toEqual({ a: 'new' })
})

it.each([
  ['the bag of an emptied folder', emptyStoredFolder, 'f', {}],
  ['what was replaced', replaceStored, 'a', { a: 'new' }],
])('sync rejects while the service does not delete %s', async (_, change, name, contents) => {
  const heal = service.proxy.add({ match: DELETE, fault: REFUSED })
  await change()
  await expect(user.drive.commands.sync()).rejects.toThrow('by the test')
  await expect(user.drive.commands.sync(name)).rejects.toThrow('by the test')
  await user.drive.commands.sync('other')
  heal()
  await user.drive.commands.sync(name)
  expect(await service.contents()).toEqual(contents)
})

async function writeAt(path: string, content: string): Promise<void> {
  const { parent, name } = await user.parent(path)
  await writeFile(parent, name, content)
}

describe('what a program is writing', () => {
  const stored = async (path: string): Promise<string> => {
    if (path === 'a') return String((await service.contents())['a'])
    const target = join(dir, 'unpacked')
    await unpackFolder(service, 'f', target)
    return readFileSync(join(target, 'x'), 'utf8')
  }

  it.each(['a', 'f/x'])('stays as it was closed in sync, which tells of it (%s)', async (path) => {
    const { drive } = user
    await drive.makeDirectory(ROOT, 'f', 0o755)
    await writeAt(path, 'old')
    expect(await drive.commands.sync()).toEqual([])
    const { length } = service.uploads()
    await user.listing.refreshNow()
    const handle = await user.open(path, true)
    expect(await drive.commands.sync()).toEqual([path])
    await drive.write(handle, Buffer.from('half'), 0)
    // In the root, the bridge leaves the flush to the last descriptor.
    if (path !== 'a') await drive.flush(handle)
    expect(await drive.commands.sync()).toEqual([path])
    expect(await drive.commands.sync(path.split('/')[0])).toEqual([path])
    expect(await drive.commands.sync('other')).toEqual([])
    expect(await stored(path)).toBe('old')
    expect(service.uploads()).toHaveLength(length)
    await drive.write(handle, Buffer.from(' and whole'), 4)
    await drive.flush(handle)
    await drive.release(handle)
    expect(await drive.commands.sync()).toEqual([])
    expect(await stored(path)).toBe('half and whole')
  })

  it('is sent by sync when it was closed a moment ago, and the kernel has not told of it yet', async () => {
    const { drive } = user
    await drive.makeDirectory(ROOT, 'f', 0o755)
    const { node } = await drive.lookup(ROOT, 'f')
    const { handle } = await drive.create(node, 'x', 0o644)
    await drive.write(handle, Buffer.from('closed'), 0)
    await drive.flush(handle)
    const synced = drive.commands.sync()
    const released = setTimeout(300).then(() => drive.release(handle))
    expect(await synced).toEqual([])
    await released
    expect(await stored('f/x')).toBe('closed')
  })
})

it('sync deletes the old version of a folder when what moved out of it stays on this machine', async () => {
  await user.makeDirectory('f')
  await writeAt('f/x', 'moved')
  await writeAt('f/z', 'stays')
  await user.drive.commands.sync()
  await user.rename('f/x', '.DS_Store')
  await user.drive.commands.sync()
  expect((await service.list()).map(({ filename }) => filename)).toEqual(['f'])
})

it('sync rejects while what was moved away is not stored at its new place, and the old content stays', async () => {
  const heal = service.proxy.add({ match: DELETE, fault: REFUSED })
  await replaceStored()
  await expect(user.drive.commands.sync()).rejects.toThrow('by the test')
  const put = user.outbox.named('a').find(({ failure }) => failure !== undefined)
  if (put === undefined) throw new Error('There is no change of a.')
  const healUploads = service.proxy.add({ match: { method: 'POST' }, fault: REFUSED })
  await user.makeDirectory('g')
  await writeAt('g/x', 'moved')
  const [elsewhere] = user.outbox.named('g')
  if (elsewhere === undefined) throw new Error('The folder has no changes.')
  const to = { id: elsewhere.id, operations: 1 }
  await user.outbox.update(put.id, (latest) => withoutFailure(movedAway(latest, to)), {
    durable: false,
  })
  heal()
  await expect(user.drive.commands.sync()).rejects.toThrow('by the test')
  const left = user.outbox.get(put.id)
  expect(left && mayDelete(left, user.outbox)).toBe(false)
  expect(await service.list()).toHaveLength(2)
  healUploads()
  await user.drive.commands.sync()
  expect((await service.list()).map(({ filename }) => filename).sort()).toEqual(['a', 'g'])
  const [kept] = (await service.list()).filter(({ filename }) => filename === 'a')
  expect(String(await service.content(kept?.bag_id ?? ''))).toBe('new')
})

it('sync sends what came into a folder after its zip was sent, while nothing tells yet that the service has that', async () => {
  await user.makeDirectory('f')
  await writeAt('f/x', 'old')
  const heals = [/download/, /files_list/].map((path) =>
    service.proxy.add({ match: { path }, fault: { answer: { status: 500 } } }),
  )
  await expect(user.drive.commands.sync()).rejects.toThrow()
  await user.remove('f/x')
  await writeAt('f/y', 'new')
  for (const heal of heals) heal()
  for (const { id } of user.outbox.named('f')) await user.drive.uploader.finished(id)
  await user.drive.commands.sync()
  const target = join(dir, 'unpacked')
  await unpackFolder(service, 'f', target)
  expect(readdirSync(target)).toEqual(['y'])
})
