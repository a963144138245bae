import { once } from 'node:events'
import { join } from 'node:path'
import { execa } from 'execa'
import { describe, expect, it } from 'vitest'
import { deferred } from '../../src/domain/deferred.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, HANGING_MS, type MountedDrive } from '../support/mounted-drive.ts'
import { unpackFolder } from '../support/unpacked.ts'

const LARGE = 'head -c 1200000 /dev/zero | tr "\\0" "x"'

const GIVEN =
  'mkdir F F/d; for f in kept over cut append gone back moved mode d/deep; do echo 0 > F/$f; done'

/** What is in the zip that is sent. */
const FIRST = `for f in over cut append gone back moved mode d/deep new; do echo 1 > F/$f; done; ${LARGE} > F/large; ${LARGE} > F/torn`

/** Each way in which what is being sent is written again. */
const SECOND =
  'echo 2 > F/tmp; mv F/tmp F/over; echo 2 > F/cut; echo 2 >> F/append; rm F/gone F/back; echo 2 > F/back; mv F/moved F/d/moved; chmod 600 F/mode; mv F/d F/e; echo 2 >> F/e/deep; rm F/new; echo 2 > F/new; printf 2 | dd of=F/large conv=notrunc status=none; echo 2 > F/fresh'

const STEPS = ['upload.answered', 'cache.taken', 'delete.answered', 'folder.led']

const TREE = 'cd F; find . -type f | sort | xargs md5sum; find . -printf "%P %y %m\\n" | sort'

describe.runIf(canMount())('what is written again while its folder is sent', () => {
  it.each(STEPS)('is there after a kill at %s', async (step) => {
    const bench = await Bench.start()
    try {
      const first = await bench.mount('--folder-settle', '1h')
      await first.sh(GIVEN)
      await first.leave()
      const drive = await bench.mountKilledAt(step, '--folder-settle', '1h')
      await drive.sh(FIRST)
      const [sending, mayPass] = [deferred(), deferred()]
      const before = (): Promise<void> => {
        sending.resolve()
        return mayPass.promise
      }
      const match = { method: 'POST', path: /upload/ }
      bench.service.proxy.add({ match, times: 1, fault: { before } })
      const synced = bench.bagfs(['sync', drive.path])
      await sending.promise
      await drive.sh(SECOND)
      const promised = await drive.sh(TREE)
      mayPass.resolve()
      expect(await died(drive)).toBe(true)
      await synced
      await drive.kill()
      const after = await bench.mount('--folder-settle', '1h')
      expect(await after.sh(TREE)).toBe(promised)
      await after.leave()
      await unpackFolder(bench.service, 'F', join(bench.dir, 'F'))
      const { stdout } = await execa('bash', ['-ec', TREE], { cwd: bench.dir })
      expect(`${stdout}\n`).toBe(promised)
      expect(await bench.service.list()).toHaveLength(1)
    } finally {
      await bench.close()
    }
  })
})

async function died({ process }: MountedDrive): Promise<boolean> {
  if (process.exitCode === null && process.signalCode === null) {
    await once(process, 'exit', { signal: AbortSignal.timeout(HANGING_MS) })
  }
  return process.signalCode === 'SIGKILL'
}
