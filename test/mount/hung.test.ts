import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'

const TIMEOUT_MS = 1_000
const SETTINGS = ['--timeout', `${TIMEOUT_MS}ms`, '--listing-lag', '2s']
/** How long content may be without a byte, in all. */
const CONTENT_MS = 3 * TIMEOUT_MS
/** On a busy machine. One deadline after the other for each of `OTHERS` would take longer. */
const MARGIN_MS = 15_000
const OTHERS = 10

/** Fails when the task hangs, or waits for one deadline after the other. */
async function within<Result>(limitMs: number, task: () => Promise<Result>): Promise<Result> {
  const startedAt = performance.now()
  const result = await task()
  expect(performance.now() - startedAt).toBeLessThan(limitMs + MARGIN_MS)
  return result
}

function otherNames(): readonly string[] {
  return Array.from({ length: OTHERS }, (_, at) => `other ${at + 1}`).sort()
}

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
      for (let n = 1; n <= OTHERS; n += 1) await bench.service.upload(`other ${n}`, `other ${n}\n`)
      const args = mode === 'back' ? ['--write-back'] : []
      drive = await bench.mount(...SETTINGS, '--listing-ttl', '100ms', ...args)
      await drive.sh('cat read.txt')
      bench.service.proxy.add({ fault: { silence: true } })
    })
    afterEach(async () => {
      await bench.close()
    })

    it('lets ls show what is known', async () => {
      await within(TIMEOUT_MS, async () => {
        expect(await drive.sh('ls -l | grep -c txt')).toBe('2\n')
        expect(await drive.sh('df . | wc -l')).toBe('2\n')
      })
    })

    it('lets cat read what is cached, and ends it for what is not', async () => {
      expect(await drive.sh('cat read.txt')).toBe('read before\n')
      const { stderr } = await within(CONTENT_MS, () => drive.fails('cat unread.txt'))
      expect(stderr).toContain('Connection timed out')
    })

    it('costs many who read one deadline, at the same time or one after the other', async () => {
      const each = (command: string): string =>
        `for n in $(seq ${OTHERS}); do ${command}; done; wait; false`
      // One of them may be the one that finds out whether the service is still dead. A deadline for each
      // of them would be OTHERS of these.
      await within(2 * CONTENT_MS, () => drive.fails(each('cat "other $n" &')))
      await within(2 * CONTENT_MS, () => drive.fails(each('cat "other $n"')))
    })

    it('ends cp, and what was copied is kept and sent later', async () => {
      const outside = join(bench.dir, 'new.txt')
      writeFileSync(outside, 'new\n')
      const copy = `cp ${outside} new.txt`
      if (mode === 'back') await within(TIMEOUT_MS, () => drive.sh(copy))
      else {
        const { stderr } = await within(CONTENT_MS, () => drive.fails(copy))
        expect(stderr).toContain('Connection timed out')
      }
      expect(await drive.sh('cat new.txt')).toBe('new\n')
      bench.service.proxy.clear()
      const names = async (): Promise<readonly string[]> =>
        (await bench.service.list()).map(({ filename }) => filename).sort()
      await expect.poll(names).toEqual(['new.txt', ...otherNames(), 'read.txt', 'unread.txt'])
    })

    it('ends rm and mv', async () => {
      if (mode === 'back') {
        await drive.sh('rm unread.txt; mv read.txt renamed.txt')
        expect(await drive.sh('ls *.txt')).toBe('renamed.txt\n')
        bench.service.proxy.clear()
        await expect
          .poll(async () => (await bench.service.list()).map(({ filename }) => filename).sort())
          .toEqual([...otherNames(), 'renamed.txt'])
        expect(await bench.service.contents()).toMatchObject({ 'renamed.txt': 'read before\n' })
        return
      }
      const { stderr } = await within(TIMEOUT_MS, () => drive.fails('rm unread.txt'))
      expect(stderr).toContain('Connection timed out')
      // Whether the rename was carried out is in doubt; mv says that in one way or another.
      await within(CONTENT_MS, () => drive.fails('mv read.txt renamed.txt'))
      expect(await drive.sh('ls -l > /dev/null; cat r*.txt')).toBe('read before\n')
    })

    it('lets umount end, and keeps what was written for the next mount', async () => {
      const outside = join(bench.dir, 'outside.txt')
      writeFileSync(outside, 'kept\n')
      if (mode === 'back') await drive.sh(`cp ${outside} kept.txt`)
      else await drive.fails(`cp ${outside} kept.txt`)
      const outcome = await within(CONTENT_MS, () => bench.bagfs(['umount', bench.mountpoint]))
      expect(outcome.code).toBe(1)
      expect(outcome.stderr).toContain('1 change is not at the service yet')
      await drive.ended()
      bench.service.proxy.clear()
      const next = await bench.mount(...SETTINGS)
      expect(await next.sh('cat kept.txt')).toBe('kept\n')
      await expect.poll(() => bench.service.list()).toHaveLength(3 + OTHERS)
      expect((await bench.service.contentOf('kept.txt')).toString()).toBe('kept\n')
    })

    it('lets the drive mount again with what it knows', async () => {
      await drive.leave()
      const next = await bench.mount(...SETTINGS)
      expect(await next.sh('ls *.txt; cat read.txt')).toBe('read.txt\nunread.txt\nread before\n')
    })
  },
)
