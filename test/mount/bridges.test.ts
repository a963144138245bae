import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { CONTRACT, emptied } from '../support/contract.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

describe.runIf(canMount()).each(['fuse-native', 'dev-fuse'] as const)(
  'a file over %s',
  (bridge) => {
    let bench: Bench
    let drive: MountedDrive

    beforeAll(async () => {
      bench = await Bench.start({ bridge })
      drive = await bench.mount('--write-back')
      await mkdir(join(drive.path, 'folder'))
    }, 60_000)

    afterEach(() => emptied(join(drive.path, 'folder')))

    afterAll(async () => {
      await drive.leave()
      expect(drive.log).not.toMatch(/A bug|cannot be read/)
      await bench.close()
    }, 60_000)

    const here = CONTRACT.filter(({ isOfDevFuse }) => isOfDevFuse !== true || bridge === 'dev-fuse')
    const everywhere = here.filter(({ isOfFolders }) => isOfFolders !== true)

    it.each(everywhere)('in the root $title', { timeout: 60_000 }, async ({ run }) => {
      await emptied(drive.path)
      await run(drive.path)
      await emptied(drive.path)
      await mkdir(join(drive.path, 'folder'))
    })

    it.each(here)('in a folder $title', { timeout: 60_000 }, async ({ run }) => {
      await run(join(drive.path, 'folder'))
    })
  },
)
