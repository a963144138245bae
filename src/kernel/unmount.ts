import { execFile } from 'node:child_process'
import { platform } from 'node:os'
import { promisify } from 'node:util'
import { DriveError } from '../domain/errors.ts'

const run = promisify(execFile)
const UNMOUNT_TIMEOUT_MS = 10_000

/** Unmounts a drive, from whichever process. Rejects `busy` while programs use it, unless `lazy`. */
export async function unmountPath(
  mountpoint: string,
  options: { readonly lazy: boolean },
): Promise<void> {
  const [program, args] =
    platform() === 'darwin'
      ? ['umount', options.lazy ? ['-f', mountpoint] : [mountpoint]]
      : ['fusermount', [options.lazy ? '-uz' : '-u', '--', mountpoint]]
  try {
    await run(program, args, { timeout: UNMOUNT_TIMEOUT_MS })
  } catch (cause) {
    throw new DriveError('busy', `${mountpoint} is in use by a program.`, {
      cause,
      hint: 'Close what uses it (see `fuser -m`), or leave at once with --now.',
    })
  }
}
