import { describe, expect, it } from 'vitest'
import type { HandleId } from '../../../src/domain/ids.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { holdNextIntent } from '../../support/hold-next-intent.ts'
import { turns } from '../../support/turns.ts'

/** Not written from its start on: its sum has to be made when it is closed, which takes some turns. */
async function writeBackwards(
  { drive }: DriveInProcess,
  handle: HandleId,
  text: string,
): Promise<void> {
  await drive.write(handle, Buffer.from(text), 3_000_000)
  await drive.write(handle, Buffer.from(text), 0)
}

async function close({ drive }: DriveInProcess, handle: HandleId): Promise<void> {
  await drive.flush(handle)
  await drive.release(handle)
}

/** Turns of the event loop that one operation is ahead of the other. */
const LEADS = [0, 2, 5]

describe.each([{ writeBack: true }, { writeBack: false }])('with %o', ({ writeBack }) => {
  /** What is at the service, and shown after a remount, each by its first byte. */
  async function outcome(account: AccountInProcess, user: DriveInProcess): Promise<unknown> {
    await user.drain()
    const stored = await account.service.contents()
    await user.drop()
    const again = await account.open({ writeBack })
    const shown = await again.tree()
    await again.drop()
    const firstOf = (all: Record<string, string | null>): Record<string, string> =>
      Object.fromEntries(Object.entries(all).map(([name, text]) => [name, text?.slice(0, 1) ?? '']))
    expect(firstOf(shown)).toEqual(firstOf(stored))
    return firstOf(stored)
  }

  /** A new file "a" that is being closed beside another one. */
  async function closing(beside: string, lead: number) {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack })
    await user.write(beside, beside)
    const { handle } = await user.drive.create(ROOT, 'a', 0o644)
    await writeBackwards(user, handle, 'new')
    const closed = close(user, handle)
    await turns(lead)
    return { account, user, closed }
  }

  it.each(LEADS)('a rename takes along what is being closed (%i turns)', async (lead) => {
    const { account, user, closed } = await closing('over', lead)
    await user.drive.rename(ROOT, 'a', ROOT, 'over')
    await closed
    expect(await outcome(account, user)).toEqual({ over: 'n' })
  })

  it.each(LEADS)('what is removed while it is being closed stays away (%i turns)', async (lead) => {
    const { account, user, closed } = await closing('kept', lead)
    await user.drive.unlink(ROOT, 'a')
    await closed
    expect(await outcome(account, user)).toEqual({ kept: 'k' })
  })

  it.each(LEADS)('a file is closed while it is being renamed (%i turns)', async (lead) => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack })
    await user.write('a', 'old')
    await user.drain()
    const handle = await user.drive.open(await user.node('a'), { writable: true, truncate: false })
    const renamed = user.drive.rename(ROOT, 'a', ROOT, 'b')
    await turns(lead)
    await writeBackwards(user, handle, 'new')
    await close(user, handle)
    await renamed
    expect(await outcome(account, user)).toEqual({ b: 'n' })
  })

  it.each(['renamed', 'removed'])('what is %s while its content is written down', async (how) => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack })
    await user.write('over', 'o')
    const { handle } = await user.drive.create(ROOT, 'a', 0o644)
    await user.drive.write(handle, Buffer.from('new'), 0)
    const { reached, letGo } = holdNextIntent(user)
    const closed = close(user, handle)
    await reached
    const { drive } = user
    const changed =
      how === 'renamed' ? drive.rename(ROOT, 'a', ROOT, 'over') : drive.unlink(ROOT, 'a')
    await turns(20)
    letGo()
    await Promise.all([closed, changed])
    const stored = how === 'renamed' ? { over: 'n' } : { over: 'o' }
    expect(await outcome(account, user)).toEqual(stored)
  })

  it('what is written while a rename is written down takes the place of what was renamed', async () => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack })
    await user.write('a', 'old')
    await user.drain()
    const handle = await user.drive.open(await user.node('a'), { writable: true, truncate: false })
    const { reached, letGo } = holdNextIntent(user)
    const renamed = user.drive.rename(ROOT, 'a', ROOT, 'b')
    await reached
    await user.drive.write(handle, Buffer.from('new'), 0)
    letGo()
    await renamed
    await close(user, handle)
    expect(await outcome(account, user)).toEqual({ b: 'n' })
  })

  it.each(LEADS)('a late rename of what is gone changes nothing (%i turns)', async (lead) => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack })
    await user.write('a', 'a')
    await user.write('b', 'b')
    const both = [user.drive.rename(ROOT, 'a', ROOT, 'b')]
    await turns(lead)
    both.push(user.drive.rename(ROOT, 'a', ROOT, 'c'))
    const done = await Promise.allSettled(both)
    const names = { b: done[0]?.status === 'fulfilled', c: done[1]?.status === 'fulfilled' }
    expect(names).toEqual({ b: true, c: false })
    expect(await outcome(account, user)).toEqual({ b: 'a' })
  })
})
