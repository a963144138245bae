import { expect, it } from 'vitest'
import { toBagId } from '../../../src/domain/ids.ts'
import { isToSend } from '../../../src/intents/rules.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'

const DOWNLOADS = { path: /download/ }

const BODIES = [
  ['half of it', 'tw'],
  ['nothing', ''],
  ['other bytes of its length', 'owt\n'],
] as const

const CASES = BODIES.flatMap(
  ([what, body]) =>
    [
      { what, body, mode: 'through', writeBack: false, isKilled: false },
      { what, body, mode: 'back', writeBack: true, isKilled: false },
      { what, body, mode: 'back', writeBack: true, isKilled: true },
    ] as const,
)

/** A drive that changes a file while each download of what it stored answers other content. */
async function changedMeanwhile(body: string, writeBack: boolean) {
  const account = await AccountInProcess.start()
  const { service } = account
  const user = await account.open({ writeBack })
  await user.write('a', 'one\n')
  await user.drain()
  const isWell = service.proxy.add({
    match: DOWNLOADS,
    fault: {
      answer: { status: 200, headers: { 'content-type': 'application/octet-stream' }, body },
    },
  })
  // In mode through it is told that the close could not store it yet.
  await user.write('a', 'two\n').catch(() => undefined)
  const tries = () => user.outbox.intents().at(-1)?.failure?.tries
  await expect.poll(tries).toBeGreaterThanOrEqual(2)
  return { account, service, user, isWell }
}

it.each(CASES)(
  'a change is stored once after its bag was answered with $what (mode $mode, killed: $isKilled)',
  async ({ body, writeBack, isKilled }) => {
    const { account, service, user, isWell } = await changedMeanwhile(body, writeBack)
    let drive = user
    if (isKilled) {
      // As content that an older version kept.
      const [, bag] = await service.list()
      await user.cache.sumOf(toBagId(bag?.bag_id ?? ''))
      await user.drop()
    }
    isWell()
    const begun = service.proxy.requests.length
    if (isKilled) drive = await account.open({ writeBack })
    await expect.poll(() => drive.outbox.intents().filter(isToSend)).toEqual([])
    const sent = service.proxy.requests.slice(begun).filter(({ method }) => method === 'POST')
    expect(sent.length).toBeLessThanOrEqual(2)
    expect(await service.contents()).toEqual({ a: 'two\n' })
    await drive.write('a', 'three\n')
    await drive.drain()
    await drive.listing.refreshNow()
    expect(await drive.tree()).toEqual({ a: 'three\n' })
    expect(drive.drive.commands.conflicts.list()).toEqual([])
    expect(await service.list()).toHaveLength(1)
  },
)
