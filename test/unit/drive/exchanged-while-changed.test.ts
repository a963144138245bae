import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { isDriveError } from '../../../src/domain/errors.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { deferred } from '../../../src/domain/deferred.ts'
import type { NodeId } from '../../../src/domain/ids.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { holdNextIntent } from '../../support/hold-next-intent.ts'

const TIMES = 40
/** Files that one program makes. */
const MOST = 200

/** Holds the change of an intent back that comes as the so manyth from now. */
function holdUpdate({ outbox }: DriveInProcess, count: number) {
  const [reached, mayGo] = [deferred(), deferred()]
  const update = outbox.update.bind(outbox)
  let left = count
  outbox.update = async (...change) => {
    left -= 1
    if (left === 0) {
      outbox.update = update
      reached.resolve()
      await mayGo.promise
    }
    return update(...change)
  }
  return { reached: reached.promise, letGo: mayGo.resolve }
}

/** A program that knows a directory, not its name, makes one file after the other in it; answers their names. */
async function fill(
  { drive }: DriveInProcess,
  directory: NodeId,
  prefix: string,
  isOver: () => boolean,
): Promise<readonly string[]> {
  const made: string[] = []
  while (!isOver() && made.length < MOST) {
    const name = `${prefix}${made.length}`
    const { handle } = await drive.create(directory, name, 0o644)
    await drive.write(handle, Buffer.from(name), 0)
    await drive.flush(handle)
    await drive.release(handle)
    made.push(name)
    await turn()
  }
  return made
}

const filesIn = (folder: string, names: readonly string[]): readonly (readonly string[])[] =>
  names.map((name) => [`${folder}/${name}`, name])

/** Two folders, `a` and `b`, with a file in each. */
async function makeBoth(machine: DriveInProcess): Promise<void> {
  for (const name of ['a', 'b']) {
    await machine.makeDirectory(name)
    await machine.write(`${name}/first`, `first of ${name}`)
  }
}

async function exchange({ drive }: DriveInProcess): Promise<void> {
  await drive.exchange(ROOT, 'a', ROOT, 'b')
}

/** Another machine sees this, once all is stored. */
async function expectElsewhere(
  account: AccountInProcess,
  machine: DriveInProcess,
  wanted: unknown,
): Promise<void> {
  await machine.drain()
  const elsewhere = await account.open({}, 'elsewhere')
  expect(await elsewhere.tree()).toEqual(wanted)
}

describe('folders whose names are exchanged', () => {
  it.each(['that wait', 'that are stored', 'that are being stored'])(
    'go on to be written by programs that are in them (%s)',
    async (what) => {
      const account = await AccountInProcess.start()
      const machine = await account.open({ settings: { folderRestMs: 20 } })
      await makeBoth(machine)
      if (what === 'that are stored') await machine.drain()
      const [one, other] = [await machine.node('a'), await machine.node('b')]
      let isOver = false
      const filling = [one, other].map((node, at) => fill(machine, node, `of ${at} `, () => isOver))
      try {
        for (let time = 0; time < TIMES; time += 1) {
          const exchanged = exchange(machine)
          if (what === 'that are being stored') await machine.drive.commands.sync()
          await exchanged
          expect([await machine.node('a'), await machine.node('b')]).toEqual(
            time % 2 === 0 ? [other, one] : [one, other],
          )
        }
      } finally {
        isOver = true
      }
      const [ofOne = [], ofOther = []] = await Promise.all(filling)
      const wanted: unknown = Object.fromEntries([
        ['a/first', 'first of a'],
        ['b/first', 'first of b'],
        ...filesIn('a', ofOne),
        ...filesIn('b', ofOther),
      ])
      expect(await machine.tree()).toEqual(wanted)
      await expectElsewhere(account, machine, wanted)
    },
  )

  it.each([1, 2, 3, 4])('are written by a program at step %i of it', async (step) => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await makeBoth(machine)
    const [one, other] = [await machine.node('a'), await machine.node('b')]
    const held = holdUpdate(machine, step)
    const exchanged = exchange(machine)
    await held.reached
    let isOver = false
    const filling = [one, other].map((node, at) => fill(machine, node, `of ${at} `, () => isOver))
    await Promise.all([machine.names(), machine.node('a'), machine.node('b')])
    for (let each = 0; each < 20; each += 1) await turn()
    held.letGo()
    await exchanged
    isOver = true
    const [ofOne = [], ofOther = []] = await Promise.all(filling)
    const wanted: unknown = Object.fromEntries([
      ['a/first', 'first of b'],
      ['b/first', 'first of a'],
      ...filesIn('b', ofOne),
      ...filesIn('a', ofOther),
    ])
    expect([await machine.node('a'), await machine.node('b')]).toEqual([other, one])
    expect(await machine.tree()).toEqual(wanted)
    await expectElsewhere(account, machine, wanted)
  })

  it.each([1, 2, 3, 4])('are not stored at step %i of it', async (step) => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await makeBoth(machine)
    const held = holdUpdate(machine, step)
    const exchanged = exchange(machine)
    await held.reached
    const asked = (): number => account.service.events.length
    const before = asked()
    const synced = machine.drive.commands.sync()
    // It asks the service for the account before it begins.
    await expect.poll(asked).toBeGreaterThan(before)
    for (let each = 0; each < 1_000; each += 1) await turn()
    held.letGo()
    await Promise.all([exchanged, synced])
    const wanted = { 'a/first': 'first of b', 'b/first': 'first of a' }
    expect(await machine.tree()).toEqual(wanted)
    await expectElsewhere(account, machine, wanted)
  })

  it('take what a program closes in one that was stored and unchanged', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await makeBoth(machine)
    await machine.drain()
    await machine.drive.commands.refresh()
    const { drive } = machine
    const handle = await drive.open(await machine.node('a/first'), {
      ...{ writable: true, truncate: false },
    })
    const held = holdNextIntent(machine)
    const exchanged = exchange(machine)
    await held.reached
    const written = Promise.resolve(drive.write(handle, Buffer.from('FIRST'), 0))
    for (let each = 0; each < 20; each += 1) await turn()
    held.letGo()
    await Promise.all([exchanged, written])
    await drive.flush(handle)
    await drive.release(handle)
    const wanted = { 'a/first': 'first of b', 'b/first': 'FIRST of a' }
    expect(await machine.tree()).toEqual(wanted)
    await expectElsewhere(account, machine, wanted)
  })

  it('are written by a program while one of them gets another name', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open({ settings: { folderRestMs: 20 } })
    await machine.makeDirectory('a')
    const directory = await machine.node('a')
    let isOver = false
    const filling = fill(machine, directory, 'file ', () => isOver)
    try {
      for (let time = 0; time < TIMES; time += 1) {
        const [from, to] = time % 2 === 0 ? (['a', 'b'] as const) : (['b', 'a'] as const)
        await machine.rename(from, to)
      }
    } finally {
      isOver = true
    }
    const wanted: unknown = Object.fromEntries(filesIn('a', await filling))
    expect(await machine.tree()).toEqual(wanted)
    await expectElsewhere(account, machine, wanted)
  })

  it.each([0, 1, 2, 5, 10, 20])(
    'lose nothing of what moves from one to the other (%i turns before)',
    async (lead) => {
      const account = await AccountInProcess.start()
      const machine = await account.open()
      for (const name of ['a', 'a/in', 'b']) await machine.makeDirectory(name)
      const files = Array.from({ length: 20 }, (_, at) => `file ${at}`)
      for (const file of files) await machine.write(`a/in/${file}`, file)
      const moved = machine.rename('a/in', 'b/in')
      for (let each = 0; each < lead; each += 1) await turn()
      await Promise.all([moved, exchange(machine)])
      const wanted: unknown = { ...Object.fromEntries(filesIn('a/in', files)), b: null }
      expect(await machine.tree()).toEqual(wanted)
      await expectElsewhere(account, machine, Object.fromEntries(filesIn('a/in', files)))
    },
  )

  it('keep what is written in what moves from one to the other', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    for (const name of ['a', 'a/in', 'b']) await machine.makeDirectory(name)
    const made: string[] = []
    let isOver = false
    const write = async (): Promise<void> => {
      while (!isOver && made.length < MOST) {
        const name = `file ${made.length}`
        for (const path of ['a/in', 'b/in']) {
          try {
            await machine.write(`${path}/${name}`, name)
            made.push(name)
            break
          } catch (error) {
            if (!isDriveError(error)) throw error
          }
        }
        await turn()
      }
    }
    const writing = [write()]
    try {
      for (let time = 0; time < TIMES; time += 1) {
        const [from, to] = await machine.node('a/in').then(
          () => ['a/in', 'b/in'] as const,
          () => ['b/in', 'a/in'] as const,
        )
        const moved = machine.rename(from, to).catch((error: unknown) => {
          if (!isDriveError(error)) throw error
        })
        for (let each = 0; each < time; each += 1) await turn()
        await exchange(machine)
        await moved
      }
    } finally {
      isOver = true
      await Promise.all(writing)
    }
    const contents = Object.entries(await machine.tree()).filter(([, content]) => content !== null)
    expect(contents.map(([, content]) => content).sort()).toEqual([...new Set(made)].sort())
  })

  it('are busy while a program waits in one of them for a service that is silent', async () => {
    const account = await AccountInProcess.start()
    const first = await account.open()
    await makeBoth(first)
    // More than a look at the names fetches.
    const large = randomBytes(2_000_000).toString('base64')
    await first.write('a/large', large)
    await first.drain()
    const machine = await account.open({}, 'elsewhere')
    for (const name of ['a', 'b']) await machine.names(name)
    const mayPass = deferred()
    const { proxy } = account.service
    const match = { path: /download/ }
    const forget = proxy.add({ match, fault: { before: () => mayPass.promise } })
    const asked = (): number => proxy.requests.filter(({ isOver }) => !isOver).length
    const appended = machine.append('a/large', ' and more')
    await expect.poll(asked).toBe(1)
    for (const change of [() => exchange(machine), () => machine.rename('a', 'c')]) {
      await expect(change()).rejects.toMatchObject({ code: 'busy' })
    }
    forget()
    mayPass.resolve()
    await appended
    await exchange(machine)
    expect(await machine.read('b/large')).toBe(`${large} and more`)
    expect(await machine.names('a')).toEqual(['first'])
  })
})
