import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { FolderNamesStore } from '../../../src/state/folder-names-store.ts'
import { tempDir } from '../zip/support.ts'

describe('how the service names folders', () => {
  let dir: string
  beforeEach(async () => {
    dir = await tempDir()
  })
  const open = (): Promise<FolderNamesStore> =>
    FolderNamesStore.open({ log: silentLogger }, { dir })

  it('is not known at first, and then for every later process, as it was learned last', async () => {
    const first = await open()
    expect(first.get()).toBeUndefined()
    first.learn('plain')
    first.learn('zipped')
    expect(first.get()).toBe('zipped')
    await first.close()
    expect((await open()).get()).toBe('zipped')
  })

  it.each(['', 'no JSON', '{"version":2,"names":"plain"}', '{"version":1,"names":"other"}'])(
    'is not known from a file with %j',
    async (text) => {
      writeFileSync(join(dir, 'folder-names.json'), text)
      expect((await open()).get()).toBeUndefined()
    },
  )
})
