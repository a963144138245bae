import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { MoveGate } from '../../../src/drive/moves/move-gate.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'

/** Longer than what is read of a file ahead of its readers. */
const LENGTH = 3_000_000

/** Each is read from the service while it moves, and that is held back. */
const MOVES = [
  { from: 'a', to: 'F/a' },
  { from: 'G', to: 'F/G' },
  { from: 'G', to: 'F/G', opened: 'G/sub/b' },
  { from: 'G/sub', to: 'sub', opened: 'G/sub/b' },
  { from: 'G/sub/b', to: 'b' },
  { from: 'G/sub/b', to: 'F/b' },
].map((move) => ({ opened: move.from === 'G' ? 'G/sub/b' : move.from, ...move }))

describe('what a program opens for writing while it is moved', () => {
  it.each(MOVES)('is not lost: $from to $to', async ({ from, to, opened }) => {
    const account = await AccountInProcess.start()
    let user = await account.open()
    await user.makeDirectory('F')
    await user.write('F/x', 'x')
    await user.write('a', randomBytes(LENGTH))
    await user.makeDirectory('G')
    await user.makeDirectory('G/sub')
    await user.write('G/sub/b', randomBytes(LENGTH))
    await user.drain()
    await user.drop()
    // Another machine, which has looked at the names only.
    user = await account.open({}, 'other')
    const { proxy } = account.service
    for (const name of ['F', 'G', 'G/sub']) await user.names(name)
    await user.drive.release(await user.open(opened))
    const asked = deferred()
    const mayAnswer = deferred()
    const before = (): Promise<void> => {
      asked.resolve()
      return mayAnswer.promise
    }
    proxy.add({ match: { path: /download/ }, fault: { before } })
    const moved = user.rename(from, to).then(
      () => 'moved',
      (error: unknown) => (error as { code: string }).code,
    )
    await asked.promise
    const handle = await user.drive.open(await user.node(opened), {
      writable: true,
      truncate: true,
    })
    mayAnswer.resolve()
    expect(await moved).toBe('busy')
    await user.drive.write(handle, Buffer.from('new'), 0)
    await user.drive.flush(handle)
    await user.drive.release(handle)
    expect(await user.read(opened)).toBe('new')
    await user.drain()
    expect(Object.values(await user.tree())).toContain('new')
  })
})

describe('a file that goes from a folder to the root, over another one', () => {
  const refused = { status: 422, body: '{"detail":"no"}' }
  const CASES = [
    { end: 'stored', answer: {}, code: undefined, root: 'moved', left: ['x'], opened: 'not-found' },
    {
      end: 'refused',
      answer: { answer: refused },
      code: 'rejected',
      root: 'old',
      left: ['f', 'x'],
      opened: undefined,
    },
  ]
  it.each(CASES)('is changed by nothing before it is $end', async (expected) => {
    const account = await AccountInProcess.start()
    const user = await account.open({ writeBack: false })
    await user.makeDirectory('d')
    await user.write('d/x', 'x')
    await user.write('d/f', 'moved')
    await user.write('f', 'old')
    await user.drain()
    const node = await user.node('d/f')
    const asked = deferred()
    const mayAnswer = deferred()
    const before = (): Promise<void> => {
      asked.resolve()
      return mayAnswer.promise
    }
    const match = { method: 'POST', path: /files/ }
    account.service.proxy.add({ match, fault: { before, ...expected.answer } })
    const moved = codeOf(user.rename('d/f', 'f'))
    await asked.promise
    let isOpened = false
    const opened = codeOf(
      user.drive.open(node, { writable: true, truncate: true }).finally(() => {
        isOpened = true
      }),
    )
    await user.names('d')
    expect(isOpened).toBe(false)
    mayAnswer.resolve()
    expect(await moved).toBe(expected.code)
    expect(await opened).toBe(expected.opened)
    expect(await user.read('f')).toBe(expected.root)
    expect((await user.names('d')).toSorted()).toEqual(expected.left)
  })
})

async function codeOf(work: Promise<unknown>): Promise<unknown> {
  try {
    await work
    return undefined
  } catch (error) {
    return (error as { code: unknown }).code
  }
}

describe('a change', () => {
  it('waits until what it changes has moved, and is known to the move before', async () => {
    const gate = new MoveGate()
    const mayEnd = deferred()
    const changed = gate.change(
      () => 'd/f',
      () => mayEnd.promise,
    )
    expect(gate.isUnderWay('d')).toBe(true)
    expect(gate.isUnderWay('d/f')).toBe(true)
    expect(gate.isUnderWay('d/fg')).toBe(false)
    mayEnd.resolve()
    await changed
    expect(gate.isUnderWay('d')).toBe(false)
    const order: string[] = []
    const change = (path: () => string | undefined): Promise<unknown> =>
      gate.change(path, () => Promise.resolve(order.push(path() ?? 'nameless')))
    let place = 'd/f'
    const letGo = gate.close('d')
    const waiting = Promise.all([change(() => place), change(() => undefined)])
    await change(() => 'e')
    place = 'g/f'
    letGo()
    await waiting
    expect(order).toEqual(['e', 'g/f', 'nameless'])
  })

  it('of content waits longer than others do, and a move can wait for those', async () => {
    const gate = new MoveGate()
    const order: string[] = []
    const letGo = gate.close('d/f', { isOfContent: true })
    const change = (name: string, isOfContent: boolean): Promise<unknown> =>
      gate.change(
        () => 'd/f',
        () => Promise.resolve(order.push(name)),
        { isOfContent },
      )
    const content = change('content', true)
    await change('mode', false)
    const mayEnd = deferred()
    const slow = gate.change(
      () => 'd/f',
      async () => {
        await mayEnd.promise
        order.push('slow')
      },
    )
    const idle = gate.untilChanged('d').then(() => order.push('idle'))
    mayEnd.resolve()
    await idle
    letGo()
    await Promise.all([slow, content])
    expect(order).toEqual(['mode', 'slow', 'idle', 'content'])
  })
})
