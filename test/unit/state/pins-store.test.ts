import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { chmod } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import { toBagId } from '../../../src/domain/ids.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { PinsStore } from '../../../src/state/pins-store.ts'
import { useTempDir } from './temp-dir.ts'

const A = toBagId('a'.repeat(64))

describe('what is pinned', () => {
  const dir = useTempDir()
  const open = (): Promise<PinsStore> =>
    PinsStore.open({ clock: systemClock, log: silentLogger }, { dir: dir.path })
  const names = (store: PinsStore): readonly string[] => store.all().map(({ name }) => name)

  it('is on disk once it is promised, and what is learned of it follows', async () => {
    const store = await open()
    await Promise.all([store.add('a'), store.add('b'), store.add('a')])
    expect(names(await open())).toEqual(['a', 'b'])
    expect(await store.remove('b')).toBe(true)
    expect(await store.remove('b')).toBe(false)
    expect(names(await open())).toEqual(['a'])
    store.replace([{ name: 'a', bagId: A }])
    await store.close()
    expect((await open()).all()).toEqual([{ name: 'a', bagId: A }])
  })

  it('is not promised where it cannot be written down', async () => {
    const store = await open()
    await store.add('a')
    writeFileSync(join(dir.path, 'file'), '')
    const elsewhere = await PinsStore.open(
      { clock: systemClock, log: silentLogger },
      { dir: join(dir.path, 'none') },
    )
    await expect(elsewhere.add('b')).rejects.toMatchObject({ code: 'local-io' })
    expect(elsewhere.all()).toEqual([])
    await chmod(dir.path, 0o700)
  })

  it('follows a name, and is as before when that is taken back', async () => {
    const store = await open()
    for (const name of ['a', 'b', 'c']) await store.add(name)
    const back = store.renamed('a', 'b')
    expect(names(store)).toEqual(['c', 'b'])
    back()
    expect([...names(store)].sort()).toEqual(['a', 'b', 'c'])
    store.renamed('other', 'a')()
    store.removed('a')
    expect(store.all().find(({ name }) => name === 'a')?.missing).toMatchObject({ isOurs: true })
    await store.close()
    expect((await open()).all()).toEqual(store.all())
  })

  it.each(['', 'no JSON', '{"version":2}', '{"version":1,"pins":[{"name":""}]}'])(
    'is set aside where its file is %j',
    async (text) => {
      const path = join(dir.path, 'pins.json')
      writeFileSync(path, text)
      const store = await open()
      expect(store.all()).toEqual([])
      expect(readFileSync(`${path}.bad`, 'utf8')).toBe(text)
      await store.add('a')
      expect(existsSync(path)).toBe(true)
    },
  )
})
