import { chmod, lchown, mkdir, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { refuseOpenPath } from '../../../src/disk/open-path.ts'
import { makePrivateDirectory } from '../../../src/disk/private-dir.ts'
import { useTempDir } from '../state/temp-dir.ts'

const OTHER_UID = 65_534

const dir = useTempDir()

/** `top` is ours alone; `state` is in it and has a file and a directory. */
async function places(): Promise<{ readonly top: string; readonly state: string }> {
  const top = dir.path
  const state = join(top, 'state')
  await mkdir(join(state, 'logs'), { recursive: true, mode: 0o700 })
  await writeFile(join(state, 'accounts.json'), '{}', { mode: 0o600 })
  return { top, state }
}

const refused = (path: string, hint: string): object => ({
  code: 'usage',
  message: expect.stringContaining(`${path} `) as string,
  facts: { hint: expect.stringContaining(hint) as string },
})

describe('a directory that is to be private', () => {
  it('is taken when it is ours, also below /tmp, over a link of ours, or not there yet', async () => {
    const { top, state } = await places()
    await refuseOpenPath(state)
    await symlink('state', join(top, 'link'))
    await refuseOpenPath(join(top, 'link', 'logs'))
    await makePrivateDirectory(join(top, 'link', 'new', 'deep'))
    await chmod(top, 0o1777)
    await refuseOpenPath(state)
  })

  it.each(['state', 'state/logs', 'state/accounts.json', '.'])(
    'is refused when others can write to %s',
    async (part) => {
      const { top, state } = await places()
      const open = join(top, part)
      await chmod(open, 0o777)
      await expect(refuseOpenPath(state)).rejects.toMatchObject(
        refused(open, `chmod go-w ${open}.`),
      )
      await expect(makePrivateDirectory(state)).rejects.toMatchObject({ code: 'usage' })
      await chmod(open, 0o700)
      await refuseOpenPath(state)
    },
  )

  it('is refused when it is sticky: others could put something in it', async () => {
    const { state } = await places()
    await chmod(state, 0o1777)
    await expect(refuseOpenPath(state)).rejects.toMatchObject(refused(state, 'chmod go-w'))
  })

  it('is refused when a link leads over a directory that others can write to', async () => {
    const { top, state } = await places()
    await mkdir(join(top, 'open'))
    await chmod(join(top, 'open'), 0o777)
    await symlink(state, join(top, 'open', 'link'))
    await symlink(join('open', 'link'), join(top, 'first'))
    const through = refuseOpenPath(join(top, 'first', 'logs'))
    await expect(through).rejects.toMatchObject(refused(join(top, 'open'), 'chmod go-w'))
  })

  it('is refused in a round of links without an end', async () => {
    const top = dir.path
    await symlink('b', join(top, 'a'))
    await symlink('a', join(top, 'b'))
    await expect(makePrivateDirectory(join(top, 'a'))).rejects.toThrow('ELOOP')
  })

  it.runIf(process.getuid?.() === 0).each([
    { part: 'state', hint: 'chown -hR 0' },
    { part: 'state/logs', hint: 'chown -hR 0' },
    { part: '.', hint: 'in a directory of your own' },
  ])('is refused when $part belongs to another user', async ({ part, hint }) => {
    const { top, state } = await places()
    const foreign = join(top, part)
    await lchown(foreign, OTHER_UID, OTHER_UID)
    await expect(refuseOpenPath(state)).rejects.toMatchObject(refused(foreign, hint))
  })

  it.runIf(process.getuid?.() === 0)('is refused with a link of another user in it', async () => {
    const { state } = await places()
    const link = join(state, 'logs', 'drive.log')
    await symlink('/etc/passwd', link)
    await lchown(link, OTHER_UID, OTHER_UID)
    await expect(refuseOpenPath(dirname(link))).rejects.toMatchObject(refused(link, `rm ${link}`))
  })
})
