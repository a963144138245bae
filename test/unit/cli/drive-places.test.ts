import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { absoluteMountpoint } from '../../../src/cli/drive-places.ts'

let directory = ''
beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'bagfs-places-')))
})
afterEach(() => rm(directory, { recursive: true }))

test('a mountpoint is found through links to links, also where it is not there yet', async () => {
  await mkdir(join(directory, 'real'))
  await symlink('real', join(directory, 'first'))
  await symlink(join(directory, 'first'), join(directory, 'second'))
  await symlink('real/missing', join(directory, 'third'))
  const found = (name: string): Promise<string> => absoluteMountpoint(join(directory, name))
  expect(await found('real')).toBe(join(directory, 'real'))
  expect(await found('second')).toBe(join(directory, 'real'))
  expect(await found('third')).toBe(join(directory, 'real/missing'))
})

test('a path that leads nowhere is told in a sentence', async () => {
  await writeFile(join(directory, 'file'), '')
  await symlink('round', join(directory, 'round'))
  const found = (name: string): Promise<string> => absoluteMountpoint(join(directory, name))
  await expect(found('missing/drive')).rejects.toMatchObject({ code: 'usage' })
  await expect(found('file/drive')).rejects.toMatchObject({ code: 'local-io' })
  await expect(found('round/drive')).rejects.toMatchObject({ code: 'local-io' })
  expect(await found('round')).toBe(join(directory, 'round'))
})
