import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { DriveRegistry } from '../../../src/control/registry.ts'

it('finds and lists the drives that were added, in order, and passes over what it cannot read', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-registry-'))
  onTestFinished(() => {
    rmSync(dir, { recursive: true })
  })
  const registry = new DriveRegistry(dir)
  expect(await new DriveRegistry(join(dir, 'missing')).list()).toEqual([])
  const b = { mountpoint: '/b', socketPath: '/s', pid: 2, stateDir: '/state' }
  const a = { mountpoint: '/a', socketPath: '/s', pid: 1 }
  await registry.add(b)
  await registry.add(a)
  writeFileSync(join(dir, 'damaged.json'), '{"mountpoint": ')
  writeFileSync(join(dir, 'other.json'), '{"mountpoint": 5}')
  writeFileSync(join(dir, '7.sock'), '')
  expect(await registry.list()).toEqual([a, b])
  expect(await registry.find('/b')).toEqual(b)
  await registry.remove('/b')
  expect(await registry.list()).toEqual([a])
})
