import { dirname } from 'node:path'
import { findDrives } from './drive-places.ts'
import { findOwing, findRemains, isOwing } from './dead-drives.ts'
import { isOwed } from '../control/status.ts'

/**
 * What drives that were mounted at a place left in other state directories, which a mount with this one does not send:
 * a sentence for each.
 */
export async function findLeftElsewhere(drive: {
  readonly mountpoint: string
  readonly stateDir: string
}): Promise<readonly string[]> {
  const { dead } = await findDrives(drive.mountpoint)
  const remains = [...(await findRemains(dead)), ...(await findOwing(drive.mountpoint))]
  return remains.filter(isOwing).flatMap(({ stateDir, outbox }) => {
    const root = stateDir === undefined ? drive.stateDir : dirname(stateDir)
    if (stateDir === undefined || root === drive.stateDir) return []
    const count = outbox.filter(isOwed).length
    const [wait, them] = count === 1 ? ['1 change waits', 'it'] : [`${count} changes wait`, 'them']
    return [
      `${wait} in ${stateDir}, of a drive that was mounted here before; a mount with --state-dir ${root} sends ${them}.`,
    ]
  })
}
