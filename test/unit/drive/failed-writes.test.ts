import { beforeEach, describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

/** More than is fetched of a file to learn that it is none that is a folder. */
const STORED = 'x'.repeat(3_000_000)

let account: AccountInProcess
let drive: DriveInProcess
beforeEach(async () => {
  account = await AccountInProcess.start()
  await account.service.upload('stored', STORED)
  drive = await account.open({ limits: { timeoutMs: 500, cacheBytes: 1e8 } })
})

describe('a write that failed because what is stored could not be had', () => {
  it('makes close fail, too; one that is made good does not', async () => {
    const node = await drive.node('stored')
    const handle = await drive.drive.open(node, { writable: true, truncate: false })
    const more = Buffer.from(' more')
    const write = async (): Promise<number> => drive.drive.write(handle, more, STORED.length)
    await account.service.proxy.down()
    await expect(write()).rejects.toThrow()
    await expect(drive.drive.flush(handle)).rejects.toThrow()
    await expect(drive.drive.fsync(handle)).rejects.toThrow()
    await account.service.proxy.up()
    await expect.poll(() => write().catch(String)).toBe(more.length)
    await drive.drive.flush(handle)
    await drive.drive.release(handle)
    await expect.poll(() => account.service.contents()).toEqual({ stored: `${STORED} more` })
  })

  it('is no part of what other writes make of the file', async () => {
    const node = await drive.node('stored')
    const handle = await drive.drive.open(node, { writable: true, truncate: false })
    await account.service.proxy.down()
    const write = async (at: number): Promise<number> =>
      drive.drive.write(handle, Buffer.from('12'), at)
    await expect(write(STORED.length)).rejects.toThrow()
    await account.service.proxy.up()
    await expect.poll(() => write(STORED.length + 2).catch(String)).toBe(2)
    await expect(drive.drive.flush(handle)).rejects.toThrow()
    await drive.drive.release(handle).catch(() => undefined)
    expect(await account.service.contents()).toEqual({ stored: STORED })
  })
})
