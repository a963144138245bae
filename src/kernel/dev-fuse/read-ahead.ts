import { writeFile } from 'node:fs/promises'
import { findMount } from '../../disk/find-mount.ts'
import { systemErrorCode } from '../../domain/errors.ts'
import type { Logger } from '../../domain/logger.ts'

/**
 * How far the kernel reads ahead of a program that reads on. Its own 128 KiB make eight requests of what one can carry;
 * with two requests under way one is answered while the program copies the other.
 */
const READ_AHEAD_KIB = 2_048

/**
 * Has the kernel read further ahead than the protocol lets a file system ask for (INIT can only lower it). Only root may,
 * and in a container often not even root: then all stays as it is.
 */
export async function widenReadAhead(mountpoint: string, log: Logger): Promise<void> {
  try {
    const mount = await findMount(mountpoint)
    if (mount === undefined) return
    await writeFile(`/sys/class/bdi/${mount.device}/read_ahead_kb`, `${READ_AHEAD_KIB}`, {
      flag: 'r+',
    })
  } catch (error) {
    log.debug(
      { code: systemErrorCode(error) },
      'The kernel reads ahead as far as it does by itself.',
    )
  }
}
