import { expect } from 'vitest'
import { isDone } from '../../src/intents/rules.ts'
import type { AccountInProcess } from './account-in-process.ts'
import type { DriveInProcess } from './drive-in-process.ts'

let witnesses = 0

/**
 * Resolves when a drive has drawn all conclusions from a listing: it has found out that another machine removed the witness,
 * which it stored for that.
 */
export async function concluded(account: AccountInProcess, drive: DriveInProcess): Promise<void> {
  const { service } = account
  witnesses += 1
  const name = `witness ${witnesses}`
  await drive.write(name, name)
  await drive.drive.commitAll()
  await expect.poll(() => drive.outbox.intents().every(isDone)).toBe(true)
  const witness = (await service.list()).find(({ filename }) => filename === name)
  await service.delete(witness?.bag_id ?? '')
  await drive.listing.refreshNow()
  await drive.names()
  await expect.poll(() => drive.outbox.named(name)).toEqual([])
}

/** What the listing says from now on, until the rules of the proxy are taken away; the drive has it when this resolves. */
export async function listAs(
  { service }: AccountInProcess,
  drive: DriveInProcess,
  body: string,
): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const answer = { status: 200, headers, body }
  service.proxy.clear()
  service.proxy.add({ match: { path: /files_list/ }, fault: { answer } })
  await drive.listing.refreshNow()
  await drive.names()
}
