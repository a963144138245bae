import { writeFileSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { bagIdOf } from '../../../src/local-service/bag-store.ts'
import { uidOf } from '../../../src/local-service/tokens.ts'
import { filesUnder, makeTempDir, startFixture, TOKEN } from './fixture.ts'
import type { Fixture } from './fixture.ts'

const OTHER = 'token-two'

async function remove(service: Fixture, id: string, token = TOKEN): Promise<number> {
  const body = new URLSearchParams({ bag_id: id })
  return (await service.ask('/api/bag', { method: 'DELETE', body }, token)).status
}

async function add(service: Fixture, id: string, token = TOKEN): Promise<number> {
  const body = new URLSearchParams({ bag_id: id })
  return (await service.ask('/api/bag/add_by_id', { method: 'POST', body }, token)).status
}

describe('the bags of the embedded service', () => {
  it('are the same after a restart', async () => {
    const service = await startFixture()
    const id = await service.put('naïve.txt', 'hello', 'words')
    await service.put('b', 'x')
    const [records, user] = [await service.list(), await service.json('/api/user')]
    await service.restart()
    expect(await service.list()).toEqual(records)
    expect(await service.json('/api/user')).toEqual(user)
    expect(await (await service.ask(`/api/bag/download/${id}`)).text()).toBe('hello')
  })

  it('are in no directory that other users can change, in whole or in part', async () => {
    const service = await startFixture()
    await service.put('a', 'hello')
    for (const part of ['.', 'bags', 'accounts']) {
      await chmod(join(service.dataDir, part), 0o777)
      await expect(service.restart()).rejects.toMatchObject({
        code: 'usage',
        message: expect.stringContaining('can be changed by other users') as string,
        facts: { hint: expect.stringMatching(/chmod go-w .*another data directory\.$/) as string },
      })
      await chmod(join(service.dataDir, part), 0o700)
    }
    await service.restart()
    expect(await service.list()).toMatchObject([{ filename: 'a' }])
  })

  it('stay when their token is not served for a while', async () => {
    const service = await startFixture()
    await service.put('a', 'hello')
    await service.restart({ tokens: [OTHER] })
    expect((await service.ask('/api/user')).status).toBe(401)
    await service.restart()
    expect(await service.list()).toMatchObject([{ filename: 'a' }])
  })

  it('stay listed when the capacity shrinks, and nothing more fits', async () => {
    const service = await startFixture()
    await service.put('a', 'hello')
    await service.restart({ capacityBytes: 3 })
    expect(await service.json('/api/user')).toMatchObject({ space_left: 0, capacity: 3 })
    const file = { name: 'file', filename: 'b', content: 'x' }
    expect((await service.send('/api/files/upload', [file])).status).toBe(400)
    await service.put('a', 'hello')
    expect(await service.list()).toHaveLength(1)
  })

  it('lose their content with their last account', async () => {
    const service = await startFixture({ tokens: [TOKEN, OTHER] })
    const id = await service.put('a', 'hello')
    expect(await service.put('a', 'hello', '', OTHER)).toBe(id)
    expect(await remove(service, id)).toBe(200)
    expect(await readdir(join(service.dataDir, 'bags'))).toEqual([id])
    expect(await remove(service, id, OTHER)).toBe(200)
    expect(await filesUnder(service.dataDir)).toEqual([])
    expect(await add(service, id)).toBe(404)
  })

  it('can be imported once, and only where they fit', async () => {
    const service = await startFixture({ tokens: [TOKEN, OTHER], capacityBytes: 8 })
    const id = await service.put('a', 'hello')
    expect(await add(service, id, OTHER)).toBe(200)
    expect(await add(service, id, OTHER)).toBe(200)
    expect(await service.list(OTHER)).toHaveLength(1)
    expect(await service.json('/api/user', OTHER)).toMatchObject({ space_left: 3 })
    const second = await service.put('b', 'abc')
    await service.put('c', 'x', '', OTHER)
    expect(await add(service, second, OTHER)).toBe(400)
    expect(await service.list(OTHER)).toHaveLength(2)
  })

  it('survive uploads, imports and deletes of one bag at the same time', async () => {
    const service = await startFixture({ tokens: [TOKEN, OTHER] })
    const id = await service.put('a', 'hello')
    await Promise.all(
      Array.from({ length: 60 }, async (_, turn) => {
        const token = turn % 2 === 0 ? TOKEN : OTHER
        if (turn % 3 === 0) return service.put('a', 'hello', '', token)
        return turn % 3 === 1 ? remove(service, id, token) : add(service, id, token)
      }),
    )
    for (const token of [TOKEN, OTHER]) {
      const records = await service.list(token)
      const answer = await service.ask(`/api/bag/download/${id}`, {}, token)
      expect(answer.status).toBe(records.length === 1 ? 200 : 404)
      expect(await service.json('/api/user', token)).toMatchObject({
        space_left: 1e9 - 5 * records.length,
      })
    }
    const before = await service.list()
    await service.restart()
    expect(await service.list()).toEqual(before)
  })

  it('are all kept when they come at the same time', async () => {
    const service = await startFixture()
    const names = Array.from({ length: 50 }, (_, index) => `file ${index}`)
    const ids = await Promise.all(names.map((name) => service.put(name, name)))
    expect(new Set(ids).size).toBe(50)
    const listed = (await service.list()).map((record) => record['filename'])
    expect(listed.sort()).toEqual(names.sort())
    await service.restart()
    expect(await service.list()).toHaveLength(50)
  })

  it('have times that rise in the order of the uploads', async () => {
    const service = await startFixture()
    for (const name of ['a', 'b', 'c', 'd']) await service.put(name, 'x')
    const times = (await service.list()).map((record) => record['uploaded_at'] as number)
    expect(times).toEqual([...new Set(times)].sort((one, other) => one - other))
  })

  it('keep their content when their record is damaged', async () => {
    const service = await startFixture()
    const id = await service.put('a', 'hello')
    await service.put('b', 'world')
    const path = join(service.dataDir, 'accounts', uidOf(TOKEN), `${id}.json`)
    const text = await readFile(path, 'utf8')
    await service.close()
    await writeFile(path, text.slice(0, 20))
    await service.start()
    expect(await service.list()).toMatchObject([{ filename: 'b' }])
    await service.close()
    await writeFile(path, text)
    await service.start()
    expect(await (await service.ask(`/api/bag/download/${id}`)).text()).toBe('hello')
  })

  it('may be 100,000', async () => {
    const dataDir = await makeTempDir()
    const folder = join(dataDir, 'accounts', uidOf(TOKEN))
    await mkdir(folder, { recursive: true })
    const ids = Array.from({ length: 100_000 }, (_, index) => index.toString(16).padStart(64, '0'))
    const record = { kind: 'file', filename: 'a', size: 1, uploaded_at: 1, description: '' }
    for (const bag_id of ids) {
      writeFileSync(join(folder, `${bag_id}.json`), JSON.stringify({ ...record, bag_id }))
    }
    const service = await startFixture({ dataDir })
    expect(await service.list()).toHaveLength(100_000)
    expect(await service.json('/api/user')).toMatchObject({ space_left: 1e9 - 100_000 })
    await service.put('one more', 'x')
    expect(await service.list()).toHaveLength(100_001)
  }, 60_000)
})

describe('bagIdOf', () => {
  it('does not mix up what a name ends with and a description begins with', () => {
    const label = { kind: 'file', name: 'a', description: 'b' } as const
    const one = bagIdOf({ ...label, name: 'ab', description: '' }, 'x')
    expect(bagIdOf(label, 'x')).not.toBe(one)
    expect(bagIdOf(label, 'x')).toBe(bagIdOf({ ...label }, 'x'))
  })
})
