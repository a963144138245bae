import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { HOSTILE_ROWS } from '../support/hostile-rows.ts'
import { HostileService } from '../support/hostile-service.ts'
import { MountedDrive } from '../support/mounted-drive.ts'

/** An idle drive has some 100 MB; a bomb that is taken in whole needs gigabytes. */
const MOST_BYTES = 700e6

let dir: string
let service: HostileService
let drive: MountedDrive | undefined
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-test-'))
  service = await HostileService.start()
})
afterEach(async () => {
  await drive?.kill()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

/** The most memory that a process ever had in use, in bytes. */
function peakBytesOf(pid: number): number {
  return (
    Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
  )
}

describe.runIf(canMount())('a listing that could end or hang the drive', () => {
  it.each(HOSTILE_ROWS.filter(({ onMount }) => onMount === true))(
    'does neither: $name',
    async ({ answer }) => {
      service.put('known', 'content')
      const dirs = { mountpoint: join(dir, 'drive'), stateDir: join(dir, 'state') }
      drive = await MountedDrive.mount(service, dirs, ['--listing-ttl', '100ms', '--timeout', '2s'])
      expect(await drive.sh('cat known')).toBe('content')
      service.harm(answer, Infinity, (asked) => asked.endpoint === 'list')
      await expect
        .poll(() => drive?.sh('ls >/dev/null; cat .bagfs/status'))
        .toContain('not to be had for now')
      expect(service.harmed).toBeGreaterThan(0)
      expect(await drive.sh('ls; cat known')).toBe('known\ncontent')
      expect(peakBytesOf(drive.process.pid ?? 0)).toBeLessThan(MOST_BYTES)
      service.well()
      service.put('later', 'more')
      await expect.poll(() => drive?.sh('ls')).toBe('known\nlater\n')
    },
    150_000,
  )
})
