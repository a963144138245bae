import { execFile } from 'node:child_process'
import { platform } from 'node:os'
import { promisify } from 'node:util'
import { DriveError, systemErrorCode } from '../domain/errors.ts'

const run = promisify(execFile)
const UNMOUNT_TIMEOUT_MS = 10_000

/** Unmounts a drive, from whichever process. Rejects `busy` while programs use it, unless `lazy`. */
export async function unmountPath(
  mountpoint: string,
  options: { readonly lazy: boolean },
): Promise<void> {
  const ways = platform() === 'darwin' ? onMac(mountpoint, options) : onLinux(mountpoint, options)
  for (const [program, args] of ways) {
    try {
      await run(program, args, { timeout: UNMOUNT_TIMEOUT_MS })
      return
    } catch (cause) {
      if (systemErrorCode(cause) === 'ENOENT') continue
      throw new DriveError('busy', `${mountpoint} is in use by a program.`, {
        cause,
        hint: 'Close what uses it (see `fuser -m`), or leave at once with --now.',
      })
    }
  }
  throw new DriveError(
    'usage',
    'No program to unmount with: fusermount, fusermount3 and umount are missing.',
  )
}

type Ways = readonly (readonly [program: string, args: readonly string[]])[]

function onMac(mountpoint: string, { lazy }: { readonly lazy: boolean }): Ways {
  return [['umount', lazy ? ['-f', mountpoint] : [mountpoint]]]
}

/** In the order in which they are tried; umount(8) is there without fuse3, and does for root. */
function onLinux(mountpoint: string, { lazy }: { readonly lazy: boolean }): Ways {
  const args = [lazy ? '-uz' : '-u', '--', mountpoint]
  return [
    ['fusermount', args],
    ['fusermount3', args],
    ['umount', lazy ? ['-l', '--', mountpoint] : ['--', mountpoint]],
  ]
}
