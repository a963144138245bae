import { describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../../support/account-in-process.ts'

const NO_DELETE = { match: { method: 'DELETE' }, fault: { answer: { status: 500 } } }

describe('a folder that is stored, and whose old version is not deleted yet', () => {
  it.each([true, false])('is renamed with what was changed since (back: %s)', async (writeBack) => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack })
    await user.makeDirectory('F')
    await user.write('F/x', 'x')
    await user.drain()
    const isBack = account.service.proxy.add(NO_DELETE)
    await user.write('F/y', 'y')
    await expect(user.drive.commands.sync()).rejects.toThrow('failed')
    await user.write('F/z', 'z')
    await user.rename('F', 'G')
    const expected = { 'G/x': 'x', 'G/y': 'y', 'G/z': 'z' }
    expect(await user.tree()).toEqual(expected)
    isBack()
    await user.drain()
    expect(await user.tree()).toEqual(expected)
    const next = await account.open({}, 'next')
    expect(await next.tree()).toEqual(expected)
  })
})
