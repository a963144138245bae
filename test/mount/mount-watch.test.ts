import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, renameSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { silentLogger } from '../../src/domain/logger.ts'
import { MountWatch } from '../../src/kernel/mount-watch.ts'
import { canMountDead } from '../support/fuse.ts'

/** The process that serves the mount ends at once. */
const MOUNT_DEAD =
  'exec 3<>/dev/fuse && mount -i -t fuse.bagfs -o fd=3,rootmode=40000,user_id=0,group_id=0 bagfs "$1"'

describe.skipIf(!canMountDead())('a drive that the kernel has cut off', () => {
  let dir: string
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-watch-'))
  })
  afterEach(() => {
    for (const place of ['here', 'elsewhere'])
      spawnSync('umount', ['-l', join(dir, place, 'drive')])
    rmSync(dir, { recursive: true })
  })

  function mountDead(): string {
    const mountpoint = join(dir, 'here', 'drive')
    mkdirSync(mountpoint, { recursive: true })
    execFileSync('sh', ['-c', MOUNT_DEAD, 'sh', mountpoint])
    expect(() => statfsSync(mountpoint)).toThrow('ENOTCONN')
    return mountpoint
  }

  /** Sees its mount first, and then `meanwhile`, before it hears that the connection has ended. */
  async function watch(mountpoint: string, meanwhile: () => void): Promise<void> {
    const isCutOff = (): Promise<boolean> => {
      meanwhile()
      return Promise.resolve(true)
    }
    const watched = new MountWatch(silentLogger, { mountpoint, isCutOff })
    await watched.where()
    watched.start()
    await watched.gone
  }

  it('takes its dead mount away', async () => {
    const mountpoint = mountDead()
    await watch(mountpoint, () => undefined)
    expect(() => statfsSync(mountpoint)).not.toThrow()
  })

  it('leaves the dead mount of another drive alone that was given the numbers of its own', async () => {
    const mountpoint = mountDead()
    let isMoved = false
    await watch(mountpoint, () => {
      if (!isMoved) renameSync(join(dir, 'here'), join(dir, 'elsewhere'))
      isMoved = true
    })
    expect(() => statfsSync(join(dir, 'elsewhere', 'drive'))).toThrow('ENOTCONN')
  })
})
