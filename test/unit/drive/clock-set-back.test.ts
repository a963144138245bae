import { expect, it } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'

const DAY_MS = 86_400_000

/** A clock that is set by the test. */
function settable(): {
  readonly clock: typeof systemClock
  readonly set: (aheadMs: number) => void
} {
  let aheadMs = 0
  return {
    clock: { ...systemClock, now: () => systemClock.now() + aheadMs },
    set: (ms) => {
      aheadMs = ms
    },
  }
}

it.each(['while the drive runs', 'between two mounts'])(
  'what was stored by a clock that is set back %s does not hide what another machine does',
  async (when) => {
    const account = await AccountInProcess.start()
    const { clock, set } = settable()
    const settings = { listingTtlMs: 1 }
    set(DAY_MS)
    let user = await account.open({ clock, settings })
    await user.write('y', 'here')
    await user.write('gone', 'gone')
    await user.drain()
    await user.remove('gone')
    await user.drain()
    expect(user.outbox.intents().length).toBeGreaterThan(0)
    if (when === 'between two mounts') await user.drop()
    set(0)
    if (when === 'between two mounts') user = await account.open({ clock, settings })
    const other = await account.open({ settings }, 'other')
    await other.write('gone', 'gone')
    await other.drain()
    await other.remove('y')
    await other.drain()
    await expect.poll(() => user.names()).toEqual(['gone'])
    expect(user.outbox.intents()).toEqual([])
  },
)

it('what is to be tried again is not put off by a clock that is set back', async () => {
  const account = await AccountInProcess.start()
  const { clock, set } = settable()
  set(DAY_MS)
  const user = await account.open({ clock })
  const { proxy } = account.service
  const later = { status: 429, headers: { 'retry-after': '2' } }
  const clear = proxy.add({ match: { method: 'POST' }, fault: { answer: later } })
  await user.write('y', 'here')
  await expect.poll(() => user.outbox.intents()[0]?.failure?.code).toBe('rate-limited')
  clear()
  set(0)
  user.drive.uploader.kick()
  await expect.poll(() => account.service.contents()).toEqual({ y: 'here' })
})
