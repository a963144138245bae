import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { startLocalService, type LocalService } from '../../../src/local-service/server.ts'
import { FolderHome } from '../../../src/drive/folders/folder-home.ts'
import { RootHome } from '../../../src/drive/root/root-home.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'

const LINES = 200

describe('a file that is written while it moves', () => {
  let dir: string
  let service: LocalService
  let user: DriveInProcess
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-moves-'))
    service = await startLocalService(
      { dataDir: join(dir, 'service'), tokens: ['token'] },
      { log: silentLogger },
    )
    user = await DriveInProcess.open({ url: service.url, token: 'token', dir, writeBack: true })
    for (const name of ['A', 'B']) await user.drive.makeDirectory(ROOT, name, 0o755)
    await user.drive.makeDirectory(await user.node('A'), 'sub', 0o755)
  })
  afterEach(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  it.each([
    { title: 'from folder to folder', path: 'A/log', moves: ['A/log', 'B/log', 'A/log'] },
    { title: 'to the root and back', path: 'A/log', moves: ['A/log', 'log', 'B/log', 'log'] },
    { title: 'in a subtree', path: 'A/sub/log', moves: ['A/sub', 'B/sub', 'S', 'A/S'] },
    { title: 'in a folder', path: 'A/log', moves: ['A', 'B/A', 'A', 'B/A'] },
  ])('keeps every line, $title', async ({ path, moves }) => {
    const { parent, name } = await user.parent(path)
    const { handle } = await user.drive.create(parent, name, 0o644)
    const line = (at: number): Buffer => Buffer.from(`line ${String(at).padStart(4, '0')}\n`)
    const write = async (): Promise<void> => {
      for (let at = 0; at < LINES; at += 1) {
        await user.drive.write(handle, line(at), at * line(0).length)
        if (at % 10 === 0) await user.drive.flush(handle)
        await new Promise((resolve) => setImmediate(resolve))
      }
    }
    const move = async (): Promise<void> => {
      for (const [at, to] of moves.slice(1).entries()) {
        const [source, target] = [await user.parent(moves[at] ?? ''), await user.parent(to)]
        await user.drive.rename(source.parent, source.name, target.parent, target.name)
      }
    }
    await Promise.all([write(), move()])
    await user.drive.flush(handle)
    await user.drive.release(handle)
    const end = `${moves.at(-1)}${path.slice(moves[0]?.length)}`
    const all = Array.from({ length: LINES }, (_, at) => line(at).toString()).join('')
    expect(await user.read(end)).toBe(all)
    await user.drain()
    const tree = await user.tree()
    expect(Object.entries(tree).filter(([, content]) => content !== null)).toEqual([[end, all]])
  })

  it.each(['A/log', 'B/log', 'log'])(
    'is told to its writer when it cannot follow to %s',
    async (to) => {
      const from = to === 'A/log' ? 'B/log' : 'A/log'
      const { parent, name } = await user.parent(from)
      const { handle } = await user.drive.create(parent, name, 0o644)
      await user.drive.write(handle, Buffer.from('before'), 0)
      const home = to === 'log' ? RootHome : FolderHome
      const failing = vi.spyOn(home.prototype, 'open')
      failing.mockRejectedValueOnce(new DriveError('timed-out', 'It does not open.'))
      const target = await user.parent(to)
      await user.drive.rename(parent, name, target.parent, target.name)
      failing.mockRestore()
      const write = async () => user.drive.write(handle, Buffer.from('after'), 0)
      await expect(write()).rejects.toMatchObject({ code: 'local-io' })
      await expect(user.drive.truncateOpen(handle, 1)).rejects.toMatchObject({ code: 'local-io' })
      expect(await user.readAll(handle)).toBe('before')
      await expect(user.drive.flush(handle)).rejects.toMatchObject({ code: 'local-io' })
      await user.drive.release(handle)
      expect(await user.read(to)).toBe('before')
    },
  )

  it('goes to a folder all the same when it is stored meanwhile', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `file ${index}`)
    const folder = await user.node('A')
    for (const name of names) {
      const { handle } = await user.drive.create(ROOT, name, 0o644)
      await user.drive.write(handle, Buffer.from(name), 0)
      await user.drive.flush(handle)
      await user.drive.release(handle)
    }
    // Each waits for those before it, and is being stored all that time.
    await Promise.all(names.map((name) => user.drive.rename(ROOT, name, folder, name)))
    await user.drain()
    for (const name of names) expect(await user.read(`A/${name}`)).toBe(name)
    const left = (await user.drive.readDirectory(ROOT)).map(({ name }) => name)
    expect(left.sort()).toEqual(['A', 'B'])
  })
})
