import { dirname } from 'node:path'
import { findOwing } from './dead-drives.ts'
import { isOwed } from '../control/status.ts'

/**
 * What drives that were mounted at a place left in other state directories, which the one that is mounted there now does
 * not send: a sentence for each. None of them is asked, since one may hang.
 */
export async function findLeftElsewhere(drive: {
  readonly mountpoint: string
  readonly stateDir: string
}): Promise<readonly string[]> {
  const remains = await findOwing(drive.mountpoint)
  return remains.flatMap(({ stateDir, outbox }) => {
    const root = stateDir === undefined ? drive.stateDir : dirname(stateDir)
    if (stateDir === undefined || root === drive.stateDir) return []
    const count = outbox.filter(isOwed).length
    const [wait, them] = count === 1 ? ['1 change waits', 'it'] : [`${count} changes wait`, 'them']
    return [
      `${wait} in ${stateDir}, of a drive that was mounted here before; a mount with --state-dir ${root} sends ${them}.`,
    ]
  })
}
