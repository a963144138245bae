import { describe, expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'

/** What moves away, and a file of it. */
const MOVES = [
  { from: 'a', to: 'F/a', file: 'a' },
  { from: 'F/b', to: 'b', file: 'F/b' },
  { from: 'F/b', to: 'G/b', file: 'F/b' },
  { from: 'F/sub', to: 'sub', file: 'F/sub/c' },
  { from: 'F/sub', to: 'G/sub', file: 'F/sub/c' },
  { from: 'G', to: 'F/G', file: 'G/d' },
]

const CASES = MOVES.flatMap((move) => [false, true].map((isOpen) => ({ ...move, isOpen })))

describe.each(CASES)(
  'a file of $from (open: $isOpen), moved to $to',
  ({ from, to, file, isOpen }) => {
    async function moved() {
      const account = await AccountInProcess.start()
      const user = await account.open()
      for (const folder of ['F', 'G', 'F/sub']) await user.makeDirectory(folder)
      for (const name of ['a', 'F/b', 'F/sub/c', 'G/d']) await user.write(name, 'content')
      const node = await user.node(file)
      const how = { writable: true, truncate: false }
      const handle = isOpen ? await user.drive.open(node, how) : undefined
      await user.rename(from, to)
      return { drive: user.drive, node, handle }
    }
    const gone = { code: 'not-found' }

    it('is not written by what knows its old place', async () => {
      const { drive, node } = await moved()
      const how = { writable: true, truncate: false }
      await expect(drive.open(node, { ...how, append: true })).rejects.toMatchObject(gone)
      await expect(drive.open(node, how)).rejects.toMatchObject(gone)
      await expect(drive.truncate(node, 3)).rejects.toMatchObject(gone)
    })

    it('is not written there either while the program that had it open closes it', async () => {
      const { drive, node, handle } = await moved()
      const closed = handle === undefined ? undefined : drive.release(handle)
      const how = { writable: true, truncate: false }
      await expect(drive.open(node, how)).rejects.toMatchObject(gone)
      await closed
    })

    it('gets no attributes at its old place', async () => {
      const { drive, node } = await moved()
      await expect(drive.setAttributes(node, { mode: 0o600 })).rejects.toMatchObject(gone)
      const value = Buffer.from('value')
      await expect(drive.extended.set(node, 'user.a', value)).rejects.toMatchObject(gone)
      await expect(drive.extended.remove(node, 'user.a')).rejects.toMatchObject(gone)
    })
  },
)

/** Directories that move, with a file in them that a program has open. */
const DIRECTORIES = [
  { from: 'F/sub', to: 'sub' },
  { from: 'F/sub', to: 'G/sub' },
  { from: 'G', to: 'F/G' },
]

it.each(DIRECTORIES)('nothing is made in $from once it has moved to $to', async ({ from, to }) => {
  const account = await AccountInProcess.start()
  const user = await account.open()
  for (const folder of ['F', 'G', 'F/sub']) await user.makeDirectory(folder)
  await user.write(`${from}/f`, 'content')
  const { drive } = user
  await drive.open(await user.node(`${from}/f`), { writable: true, truncate: false })
  const left = await user.node(from)
  await user.rename(from, to)
  const gone = { code: 'not-found' }
  await expect(drive.create(left, 'new', 0o644)).rejects.toMatchObject(gone)
  await expect(drive.makeDirectory(left, 'new', 0o755)).rejects.toMatchObject(gone)
  await expect(drive.unlink(left, 'f')).rejects.toMatchObject(gone)
})

it('what is set, and opened to be read, while a file is stored on its way to the root, goes along', async () => {
  const account = await AccountInProcess.start()
  const user = await account.open({ writeBack: false })
  await user.makeDirectory('F')
  await user.write('F/b', 'content')
  const node = await user.node('F/b')
  const { drive } = user
  const asked = deferred()
  const mayAnswer = deferred()
  const before = (): Promise<void> => {
    asked.resolve()
    return mayAnswer.promise
  }
  account.service.proxy.add({ match: { method: 'POST' }, fault: { before } })
  const moved = user.rename('F/b', 'b')
  await asked.promise
  const handle = await drive.open(node, { writable: false, truncate: false })
  await drive.setAttributes(node, { mode: 0o600, mtimeMs: 1_000_000 })
  mayAnswer.resolve()
  await moved
  const there = await user.node('b')
  expect(drive.nodeOf(handle)).toBe(there)
  expect(await drive.getAttributes(there)).toMatchObject({ mode: 0o600, mtimeMs: 1_000_000 })
})
