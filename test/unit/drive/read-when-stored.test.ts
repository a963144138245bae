import { expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'

/** What the service is asked to find out that it has a bag, and that it is what was sent. */
const PROOF = 'bytes=0-65535'

it.each([
  ['through', false],
  ['back', true],
])(
  'content that was closed is never fetched, also in the moment it is stored (mode %s)',
  async (_mode, writeBack) => {
    const account = await AccountInProcess.start()
    const { service } = account
    const user = await account.open({ writeBack })
    await user.write('doc', 'content')
    await expect.poll(() => user.outbox.intents()[0]?.phase).not.toBe('waiting')
    // The content waits for the disk before it becomes the cache's.
    expect(await user.read('doc')).toBe('content')
    await user.rename('doc', 'copy')
    const handle = await user.open('copy')
    await user.drain()
    expect(await user.readAll(handle)).toBe('content')
    await user.drive.release(handle)
    expect(await user.read('copy')).toBe('content')
    const downloads = service.proxy.requests.filter(({ path }) => path.includes('/download/'))
    expect(downloads.filter(({ headers }) => headers.range !== PROOF)).toEqual([])
    expect(await service.contents()).toEqual({ copy: 'content' })
  },
)

it('a bag whose id is answered to an upload of other content keeps its own', async () => {
  const account = await AccountInProcess.start()
  const { service } = account
  const theirs = await service.upload('other', 'theirs')
  const user = await account.open()
  const body = JSON.stringify({ bag_id: theirs })
  service.proxy.add({
    match: { method: 'POST', path: /upload/ },
    fault: { answer: { status: 200, body } },
  })
  await user.write('doc', 'ours!!')
  await expect.poll(() => user.outbox.intents()[0]?.failure).toBeDefined()
  expect(await user.read('other')).toBe('theirs')
  expect(await user.read('doc')).toBe('ours!!')
})
