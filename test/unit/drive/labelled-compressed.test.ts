import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'

const ARCHIVE = gzipSync(Buffer.from('what is in the archive\n'.repeat(5_000)))
const DOWNLOAD = { method: 'GET', path: /download/ }

/** An account of a service that says `Content-Encoding: gzip` of what is stored as a gzip file, as web servers do. */
async function labelled(more: { readonly noLength?: boolean } = {}) {
  const account = await AccountInProcess.start()
  await account.service.upload('a.gz', ARCHIVE)
  account.service.proxy.add({
    match: DOWNLOAD,
    fault: { headers: { 'content-encoding': 'gzip' }, ...more },
  })
  const user = await account.open({ writeBack: false })
  const stored = async (name: string): Promise<Buffer> => {
    account.service.proxy.clear()
    const other = await account.open({}, 'elsewhere')
    return other.readBytes(name)
  }
  return { account, user, stored }
}

describe('a file that is stored compressed, and that the service calls compressed on its way', () => {
  it('is read as it is stored', async () => {
    const { user } = await labelled()
    expect(await user.readBytes('a.gz')).toEqual(ARCHIVE)
  })

  it('is stored under another name as it was', async () => {
    const { user, stored } = await labelled()
    await user.rename('a.gz', 'b.gz')
    await user.drain()
    expect(await stored('b.gz')).toEqual(ARCHIVE)
  })

  it('is an error where no length tells it, and stays', async () => {
    const { user, stored } = await labelled({ noLength: true })
    await expect(user.readBytes('a.gz')).rejects.toMatchObject({ code: 'bad-answer' })
    await expect(user.rename('a.gz', 'b.gz')).rejects.toMatchObject({ code: 'bad-answer' })
    expect(await stored('a.gz')).toEqual(ARCHIVE)
  })

  it('is known again when it was stored from here', async () => {
    const { account, user } = await labelled()
    await user.write('own.gz', ARCHIVE)
    await user.drain()
    expect((await account.service.list()).map(({ filename }) => filename).sort()).toEqual([
      'a.gz',
      'own.gz',
    ])
  })
})
