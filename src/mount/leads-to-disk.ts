import { lstatSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { listMounts } from '../disk/find-mount.ts'
import { ifThere } from '../disk/if-there.ts'

/** File systems that answer from a disk of this machine, or from its memory (filesystems(5)): no program or line can fail them. */
const LOCAL_TYPES = new Set(
  'ext2 ext3 ext4 xfs btrfs f2fs bcachefs zfs vfat exfat tmpfs devtmpfs ramfs rootfs overlay'.split(
    ' ',
  ),
)
/** As many as the kernel follows. */
const MOST_LINKS = 40

/**
 * True where no step to a path can hang, links included: each directory on the way lies on a disk of this machine. An
 * absolute path; touches nothing of which the table of mounts has not told that.
 */
export async function leadsToDisk(path: string): Promise<boolean> {
  const mounts = await ifThere(listMounts())
  if (mounts === undefined) return false
  const risky = new Set(
    mounts.filter(({ type }) => !LOCAL_TYPES.has(type)).map(({ mountpoint }) => mountpoint),
  )
  let links = 0
  let at = '/'
  const names = namesOf(path)
  while (!risky.has(at)) {
    const name = names.shift()
    if (name === undefined) return true
    const next = join(at, name)
    const target = risky.has(next) ? undefined : linkAt(next)
    if (target === undefined) at = next
    else if ((links += 1) > MOST_LINKS) return true
    else {
      names.unshift(...namesOf(target))
      if (target.startsWith('/')) at = '/'
    }
  }
  return false
}

const namesOf = (path: string): string[] => path.split('/').filter((name) => name !== '')

/** Undefined for what is no link, or not there. */
function linkAt(path: string): string | undefined {
  try {
    return lstatSync(path).isSymbolicLink() ? readlinkSync(path) : undefined
  } catch {
    return undefined
  }
}
