import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { TestService } from '../../support/mounted-drive.ts'
import { writeArchive } from '../../../src/zip/write.ts'
import { fileOf, rawZip } from '../zip/support.ts'

const DOWNLOADS = { method: 'GET', path: /download/ }

describe('a change of a bag whose kind is not known yet', () => {
  let dir: string
  let service: TestService
  let user: DriveInProcess
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-kinds-'))
    service = await TestService.start(join(dir, 'service'))
  })
  afterEach(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  /** A drive that begins with folders that another machine has uploaded. */
  const begin = async (...names: readonly string[]): Promise<void> => {
    for (const name of names) {
      // Equal content would be one bag.
      await service.upload(name, rawZip([{ name: 'in.txt', content: name }]))
    }
    const { url } = service.proxy
    user = await DriveInProcess.open({ url, token: service.token, dir, writeBack: true })
  }
  const write = async (path: string, content: string): Promise<void> => {
    const { parent, name } = await user.parent(path)
    const { handle } = await user.drive.create(parent, name, 0o644)
    await user.drive.write(handle, Buffer.from(content), 0)
    await user.drive.flush(handle)
    await user.drive.release(handle)
  }

  it('by its name waits until it is known', async () => {
    await begin('Made', 'Removed', 'Replaced', 'Moved', 'Over', 'Target', 'Inside')
    await write('f', 'f')
    await user.drive.makeDirectory(ROOT, 'F', 0o755)
    await write('F/g', 'g')
    const folder = await user.node('F')
    const { drive } = user
    service.proxy.add({ match: DOWNLOADS, fault: { latencyMs: 200 } })
    const isDirectory = { code: 'is-a-directory' }
    await Promise.all([
      expect(drive.create(ROOT, 'Made', 0o644)).rejects.toMatchObject(isDirectory),
      expect(drive.unlink(ROOT, 'Removed')).rejects.toMatchObject(isDirectory),
      expect(drive.rename(ROOT, 'f', ROOT, 'Replaced')).rejects.toMatchObject(isDirectory),
      expect(drive.rename(ROOT, 'Over', ROOT, 'f')).rejects.toMatchObject({
        code: 'not-a-directory',
      }),
      expect(drive.rename(folder, 'g', ROOT, 'Target')).rejects.toMatchObject(isDirectory),
      drive.rename(ROOT, 'Inside', folder, 'in'),
      drive.rename(ROOT, 'Moved', ROOT, 'New'),
    ])
    expect(await user.tree()).toEqual({
      ...{ 'Made/in.txt': 'Made', 'Removed/in.txt': 'Removed', 'Replaced/in.txt': 'Replaced' },
      ...{ 'New/in.txt': 'Moved', 'Over/in.txt': 'Over', 'Target/in.txt': 'Target' },
      ...{ 'F/g': 'g', 'F/in/in.txt': 'Inside', f: 'f' },
    })
  })

  it('is refused while nobody can tell, except its removal, and asks anew each time', async () => {
    await begin('Unknown', 'Removed')
    const { drive } = user
    service.proxy.add({ match: DOWNLOADS, fault: { answer: { status: 500 } } })
    const node = await user.node('Unknown')
    expect((await drive.getAttributes(node)).kind).toBe('file')
    const changes = [
      () => drive.create(ROOT, 'Unknown', 0o644),
      () => drive.open(node, { writable: true, truncate: false }),
      () => drive.open(node, { writable: false, truncate: true }),
      () => drive.truncate(node, 0),
      () => drive.truncate(node, 3),
      () => drive.rename(ROOT, 'Unknown', ROOT, 'Other'),
    ]
    for (const change of changes) {
      await expect(change()).rejects.toMatchObject({ code: 'server-error' })
    }
    await drive.unlink(ROOT, 'Removed')
    service.proxy.clear()
    await expect(drive.truncate(node, 0)).rejects.toMatchObject({ code: 'is-a-directory' })
    await user.drain()
    expect(await user.tree()).toEqual({ 'Unknown/in.txt': 'Unknown' })
  })

  it('goes on as that of a file when its content is gone for ever', async () => {
    await begin('Gone')
    const answer = { status: 404, headers: { 'content-type': 'application/json' }, body: '{}' }
    service.proxy.add({ match: DOWNLOADS, fault: { answer } })
    await user.drive.rename(ROOT, 'Gone', ROOT, 'Other')
    await user.drive.unlink(ROOT, 'Other')
    expect(await user.tree()).toEqual({})
  })

  it('ends with the drive, also where many wait', async () => {
    const names = Array.from({ length: 12 }, (_, index) => `Folder ${index}`)
    await begin(...names)
    service.proxy.add({ match: DOWNLOADS, fault: { silence: true } })
    const changes = names.map((name) => user.drive.create(ROOT, name, 0o644))
    const ends = Promise.allSettled(changes)
    const asked = (): number =>
      service.proxy.requests.filter(({ path }) => DOWNLOADS.path.test(path)).length
    await expect.poll(asked).toBe(4)
    await user.drive.close()
    expect((await ends).map(({ status }) => status)).toEqual(names.map(() => 'rejected'))
  })
})

describe("a folder's zip that is listed as NAME.zip", () => {
  let dir: string
  let service: TestService
  let user: DriveInProcess
  let zip: Buffer
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-kinds-'))
    service = await TestService.start(join(dir, 'service'))
    const content = await fileOf(dir, 'content', 'content')
    const item = { type: 'file', path: 'in.txt', mode: 0o644, mtimeMs: 0, content } as const
    await writeArchive([item], join(dir, 'zip'))
    zip = readFileSync(join(dir, 'zip'))
  })
  afterEach(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const begin = async (): Promise<void> => {
    const { url } = service.proxy
    user = await DriveInProcess.open({ url, token: service.token, dir, writeBack: true })
  }
  /** Names of the root once all is known, directories with a slash. */
  const shown = async (): Promise<string> => {
    const names = (await user.drive.readDirectory(ROOT)).map(({ name, kind }) => {
      return kind === 'directory' ? `${name}/` : `${name}${kind === undefined ? '?' : ''}`
    })
    return names.sort().join(' ')
  }
  const FILE = 'folder-names.json'
  const learned = (): unknown => JSON.parse(readFileSync(join(dir, FILE), 'utf8'))

  it('is a file when another is listed as NAME, whichever head comes first', async () => {
    const slow = await service.upload('Photos', zip)
    await service.upload('Photos.zip', zip)
    const path = new RegExp(slow)
    service.proxy.add({ match: { method: 'GET', path }, fault: { latencyMs: 1_000 } })
    await begin()
    await shown()
    expect((await user.drive.lookup(ROOT, 'Photos.zip')).kind).toBe('file')
    await expect.poll(shown).toBe('Photos.zip Photos/')
    await user.drop()
    expect(learned()).toEqual({ version: 1, names: 'plain' })
  })

  it('is a folder when none is listed as NAME, for this machine from now on', async () => {
    for (const name of ['One.zip', 'Two.zip']) await service.upload(name, zip)
    await service.upload('real.zip', rawZip([{ name: 'in.txt', content: 'in' }]))
    await service.upload('other', 'no zip')
    await begin()
    expect((await user.drive.lookup(ROOT, 'One')).kind).toBe('directory')
    await expect.poll(shown).toBe('One/ Two/ other real.zip')
    expect(await user.read('Two/in.txt')).toBe('content')
    await user.drop()
    expect(learned()).toEqual({ version: 1, names: 'zipped' })
    await begin()
    expect(await shown()).toBe('One/ Two/ other real.zip')
  })

  it('is a file where a folder that was stored here before is listed as NAME', async () => {
    await begin()
    await user.drive.makeDirectory(ROOT, 'Mine', 0o755)
    const { parent, name } = await user.parent('Mine/f')
    const { handle } = await user.drive.create(parent, name, 0o644)
    await user.drive.write(handle, Buffer.from('f'), 0)
    await user.drive.release(handle)
    await user.drive.commands.sync()
    await user.drain()
    await user.drop()
    // As an earlier version leaves it.
    rmSync(join(dir, FILE), { force: true })
    await service.upload('Mine.zip', zip)
    await begin()
    await user.listing.refreshNow()
    await expect.poll(shown).toBe('Mine.zip Mine/')
    await user.drop()
    expect(learned()).toEqual({ version: 1, names: 'plain' })
  })

  it('is a file that nobody looks into where folders are known to be listed as NAME', async () => {
    writeFileSync(join(dir, FILE), '{"version":1,"names":"plain"}')
    await service.upload('Photos.zip', zip)
    await begin()
    expect(await shown()).toBe('Photos.zip')
    expect(service.proxy.requests.filter(({ path }) => DOWNLOADS.path.test(path))).toEqual([])
  })

  it('is no file to a change of its name, or of its name without .zip, before its head is here', async () => {
    for (const name of ['One.zip', 'Two.zip']) await service.upload(name, zip)
    service.proxy.add({ match: DOWNLOADS, fault: { latencyMs: 200 } })
    await begin()
    const isDirectory = { code: 'is-a-directory' }
    await expect(user.drive.create(ROOT, 'One', 0o644)).rejects.toMatchObject(isDirectory)
    await user.drive.create(ROOT, 'Two.zip', 0o644)
    await expect.poll(shown).toBe('One/ Two.zip Two/')
  })
})
