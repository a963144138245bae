import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

/** With `--timeout 500ms`, far beyond every deadline and its one repeat, and far below for ever. */
const LIMIT = { timeoutMs: 20_000 }

/** The service takes connections and never answers. */
describe.runIf(canMount()).each([{ mode: 'through' }, { mode: 'back' }])(
  'a service that hangs, mode $mode',
  ({ mode }) => {
    let bench: Bench
    let drive: MountedDrive
    beforeEach(async () => {
      bench = await Bench.start()
      await bench.service.upload('read.txt', 'read before\n')
      await bench.service.upload('unread.txt', 'never read\n')
      const args = mode === 'back' ? ['--write-back'] : []
      drive = await bench.mount('--timeout', '500ms', '--listing-ttl', '100ms', ...args)
      await drive.sh('cat read.txt')
      bench.service.proxy.add({ fault: { silence: true } })
    })
    afterEach(async () => {
      await bench.close()
    })

    it('lets ls show what is known', async () => {
      expect(await drive.sh('ls -l | grep -c txt', LIMIT)).toBe('2\n')
      expect(await drive.sh('df . | wc -l', LIMIT)).toBe('2\n')
    })

    it('lets cat read what is cached, and ends it for what is not', async () => {
      expect(await drive.sh('cat read.txt', LIMIT)).toBe('read before\n')
      expect((await drive.fails('cat unread.txt')).stderr).toContain('Connection timed out')
    })

    it('ends cp, and what was copied is kept and sent later', async () => {
      const outside = join(bench.dir, 'new.txt')
      writeFileSync(outside, 'new\n')
      if (mode === 'back') await drive.sh(`cp ${outside} new.txt`, LIMIT)
      else
        expect((await drive.fails(`cp ${outside} new.txt`)).stderr).toContain(
          'Connection timed out',
        )
      expect(await drive.sh('cat new.txt', LIMIT)).toBe('new\n')
      bench.service.proxy.clear()
      const names = async (): Promise<readonly string[]> =>
        (await bench.service.list()).map(({ filename }) => filename).sort()
      await expect
        .poll(names, { timeout: 40_000, interval: 200 })
        .toEqual(['new.txt', 'read.txt', 'unread.txt'])
    })

    it('ends rm and mv', async () => {
      if (mode === 'back') {
        await drive.sh('rm unread.txt; mv read.txt renamed.txt', LIMIT)
        expect(await drive.sh('ls', LIMIT)).toBe('renamed.txt\n')
        bench.service.proxy.clear()
        await expect
          .poll(async () => (await bench.service.list()).map(({ filename }) => filename), {
            timeout: 40_000,
            interval: 200,
          })
          .toEqual(['renamed.txt'])
        expect(await bench.service.contents()).toEqual({ 'renamed.txt': 'read before\n' })
        return
      }
      expect((await drive.fails('rm unread.txt')).stderr).toContain('Connection timed out')
      // Whether the rename was carried out is in doubt; mv says that in one way or another.
      await drive.fails('mv read.txt renamed.txt')
      expect(await drive.sh('ls -l > /dev/null; cat r*.txt', LIMIT)).toBe('read before\n')
    })

    it('lets umount end, and keeps what was written for the next mount', async () => {
      const outside = join(bench.dir, 'outside.txt')
      writeFileSync(outside, 'kept\n')
      if (mode === 'back') await drive.sh(`cp ${outside} kept.txt`, LIMIT)
      else await drive.fails(`cp ${outside} kept.txt`)
      const outcome = await bench.bagfs(['umount', bench.mountpoint], { timeoutMs: 40_000 })
      expect(outcome.code).toBe(0)
      expect(outcome.stderr).toContain('1 change is not at the service yet')
      await drive.ended()
      bench.service.proxy.clear()
      const next = await bench.mount()
      expect(await next.sh('cat kept.txt')).toBe('kept\n')
      await expect
        .poll(() => bench.service.list(), { timeout: 40_000, interval: 200 })
        .toHaveLength(3)
      expect((await bench.service.contentOf('kept.txt')).toString()).toBe('kept\n')
    })

    it('lets the drive mount again with what it knows', async () => {
      await drive.leave()
      const next = await bench.mount('--timeout', '500ms')
      expect(await next.sh('ls; cat read.txt', LIMIT)).toBe('read.txt\nunread.txt\nread before\n')
    })
  },
)
