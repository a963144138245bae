import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'

const CONTENT = 'precious'.repeat(100)

/** The copy of a file that moved into a folder, in the outbox. */
function copyIn({ dir }: AccountInProcess): string {
  const outbox = join(dir, 'state', 'outbox')
  const paths = readdirSync(outbox, { recursive: true, encoding: 'utf8' })
    .map((name) => join(outbox, name))
    .filter((path) => statSync(path).isFile() && statSync(path).size === CONTENT.length)
  expect(paths).toHaveLength(1)
  return paths[0] ?? ''
}

it.each<[string, (path: string) => void]>([
  [
    'nothing',
    (path) => {
      truncateSync(path, 0)
    },
  ],
  [
    'a part',
    (path) => {
      truncateSync(path, 100)
    },
  ],
  [
    'other bytes',
    (path) => {
      writeFileSync(path, readFileSync(path).fill(0, 5, 6))
    },
  ],
])(
  'a stored file stays where the disk leaves %s of its copy in a folder',
  async (_what, damage) => {
    const account = await AccountInProcess.start()
    const before = await account.open({ settings: { folderRestMs: 60_000 } })
    await before.makeDirectory('folder')
    await before.write('folder/own', 'own')
    await before.write('file', CONTENT)
    await before.drain()
    await before.rename('file', 'folder/file')
    await before.drop()
    damage(copyIn(account))
    const user = await account.open()
    await user.drain()
    const now = { 'folder/own': 'own', file: CONTENT }
    expect(await user.tree()).toEqual(now)
    expect(await (await account.open({}, 'elsewhere')).tree()).toEqual(now)
    expect(user.outbox.damaged()).toHaveLength(1)
  },
)
