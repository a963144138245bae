import { readFile } from 'node:fs/promises'
import { ifThere } from './if-there.ts'
import { parseMountinfo, type Mount } from './mountinfo.ts'

/** What is mounted on a path, without touching the path; undefined where there is no mount table. */
export async function findMount(path: string): Promise<Mount | undefined> {
  const mounts = await ifThere(listMounts())
  return mounts?.findLast(({ mountpoint }) => mountpoint === path)
}

/**
 * True where the first use of a path has something mounted there (x-systemd.automount). Until that is done, the kernel
 * lets only the automounter in, and the processes of its group (Linux, Documentation/filesystems/autofs.rst).
 */
export async function isAutomount(path: string): Promise<boolean> {
  return (await findMount(path))?.type === 'autofs'
}

/** All mounts that this process sees. */
export async function listMounts(): Promise<readonly Mount[]> {
  return parseMountinfo(await readFile('/proc/self/mountinfo', 'utf8'))
}
