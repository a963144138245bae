import { chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { DriveRegistry } from '../../../src/control/registry.ts'

describe('the registry of drives', () => {
  let dir = ''
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-registry-'))
    onTestFinished(() => {
      rmSync(dir, { recursive: true })
    })
  })

  const inDir = (name: string): string => join(dir, name)

  it('finds and lists the drives that were added, in order, and passes over what it cannot read', async () => {
    const registry = new DriveRegistry([dir])
    expect(await new DriveRegistry([inDir('missing')]).list()).toEqual([])
    const b = { mountpoint: '/b', socketPath: '/s', pid: 2, stateDir: '/state' }
    const a = { mountpoint: '/a', socketPath: '/s', pid: 1 }
    await registry.add(b)
    await registry.add(a)
    writeFileSync(inDir('0.json'), '{"mountpoint": ')
    writeFileSync(inDir('1.json'), '{"mountpoint": 5}')
    writeFileSync(inDir('7.sock'), '')
    expect(await registry.list()).toEqual([a, b])
    expect(await registry.find('/b')).toEqual(b)
    await registry.leave('/b')
    expect(await registry.list()).toEqual([a])
  })

  it('keeps in mind where drives left what they kept, for as long as that is there', async () => {
    const registry = new DriveRegistry([dir])
    const [first, second] = [inDir('first'), inDir('second')]
    for (const stateDir of [first, second]) {
      mkdirSync(stateDir)
      await registry.add({ mountpoint: '/drive', socketPath: '/s', pid: 1, stateDir })
      await registry.leaveOwn({ mountpoint: '/drive', pid: 1 })
    }
    const former = async () => (await registry.listFormer('/drive')).map(({ stateDir }) => stateDir)
    expect((await former()).sort()).toEqual([first, second])
    expect(await registry.listFormer('/elsewhere')).toEqual([])
    // A drive that was killed, and one that is mounted in its place.
    await registry.add({ mountpoint: '/drive', socketPath: '/s', pid: 2, stateDir: first })
    expect(await former()).toEqual([second])
    await registry.add({ mountpoint: '/drive', socketPath: '/s', pid: 3, stateDir: second })
    expect(await former()).toEqual([first])
    rmSync(first, { recursive: true })
    await registry.add({ mountpoint: '/other', socketPath: '/s', pid: 4 })
    expect(await former()).toEqual([])
  })

  it('is in the first directory that can be written, and read from all', async () => {
    writeFileSync(inDir('file'), '')
    const second = inDir('second')
    const drive = { mountpoint: '/a', socketPath: '/s', pid: 1 }
    await new DriveRegistry([inDir('file'), second]).add(drive)
    const both = new DriveRegistry([inDir('first'), second])
    expect(await both.list()).toEqual([drive])
    await both.leave('/a')
    expect(await both.list()).toEqual([])
  })

  it.runIf(process.getuid?.() === 0)('believes nothing of another user', async () => {
    const registry = new DriveRegistry([inDir('theirs')])
    await registry.add({ mountpoint: '/a', socketPath: '/s', pid: 1 })
    chownSync(inDir('theirs'), 65534, 65534)
    expect(await registry.list()).toEqual([])
  })
})
