import { join } from 'node:path'
import type { RunningDrive } from '../control/registry.ts'
import { findMount } from '../disk/find-mount.ts'
import { listItems, type OutboxItem } from '../outbox/items.ts'
import { readOutbox } from '../outbox/read-outbox.ts'
import { isOwed } from '../control/status.ts'
import { describeItem, summariseOutbox } from '../mount/status-words.ts'

/** What a drive left whose process ended otherwise than by leaving. */
export interface DeadDrive {
  readonly mountpoint: string
  /** The kernel has its mount still. */
  readonly isMounted: boolean
  readonly outbox: readonly OutboxItem[]
}

/** Those of dead drives that leave something to do. */
export async function findRemains(dead: readonly RunningDrive[]): Promise<readonly DeadDrive[]> {
  const all = await Promise.all(dead.map(lookAt))
  return all.filter((drive) => drive.isMounted || isOwing(drive))
}

async function lookAt({ mountpoint, stateDir }: RunningDrive): Promise<DeadDrive> {
  const mount = await findMount(mountpoint)
  const stored = stateDir === undefined ? undefined : await readOutbox(join(stateDir, 'outbox'))
  const outbox = listItems(stored?.intents ?? [])
  return { mountpoint, isMounted: mount?.type === 'fuse.bagfs', outbox }
}

/** True when the service lacks something of it. */
export function isOwing({ outbox }: DeadDrive): boolean {
  return outbox.some(isOwed)
}

/** As `bagfs status` tells of a drive that answers. */
export function describeDead(drive: DeadDrive, nowMs: number): string {
  const { mountpoint, isMounted, outbox } = drive
  const unmount = isMounted ? `bagfs umount ${mountpoint}, then ` : ''
  const aim = isOwing(drive) ? ': the mount sends what waits' : ''
  return [
    `Drive:    ${mountpoint} (its process ended without leaving)`,
    `Outbox:   ${summariseOutbox(outbox)}`,
    ...outbox.map((item) => `  ${describeItem(item, nowMs)}`),
    `To do:    ${unmount}mount it again${aim}`,
  ].join('\n')
}
