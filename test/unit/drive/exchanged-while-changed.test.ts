import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { AccountInProcess } from '../../support/account-in-process.ts'
import { deferred } from '../../../src/domain/deferred.ts'
import type { NodeId } from '../../../src/domain/ids.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

const TIMES = 40

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
  while (!isOver()) {
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

describe('folders whose names are exchanged', () => {
  it.each(['that wait', 'that are stored'])(
    'go on to be written by programs that are in them (%s)',
    async (what) => {
      const account = await AccountInProcess.start()
      const machine = await account.open({ settings: { folderRestMs: 20 } })
      for (const name of ['a', 'b']) {
        await machine.makeDirectory(name)
        await machine.write(`${name}/first`, 'first')
      }
      if (what === 'that are stored') await machine.drain()
      const [one, other] = [await machine.node('a'), await machine.node('b')]
      let isOver = false
      const filling = [one, other].map((node, at) => fill(machine, node, `of ${at} `, () => isOver))
      try {
        for (let time = 0; time < TIMES; time += 1) {
          const { parent } = await machine.parent('a')
          await machine.drive.exchange(parent, 'a', parent, 'b')
          expect([await machine.node('a'), await machine.node('b')]).toEqual(
            time % 2 === 0 ? [other, one] : [one, other],
          )
        }
      } finally {
        isOver = true
      }
      const [ofOne = [], ofOther = []] = await Promise.all(filling)
      const wanted: unknown = Object.fromEntries([
        ['a/first', 'first'],
        ['b/first', 'first'],
        ...filesIn('a', ofOne),
        ...filesIn('b', ofOther),
      ])
      expect(await machine.tree()).toEqual(wanted)
      await machine.drain()
      const elsewhere = await account.open({}, 'elsewhere')
      expect(await elsewhere.tree()).toEqual(wanted)
    },
  )

  it.each([1, 2, 3, 4])('are written by a program at step %i of it', async (step) => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    for (const name of ['a', 'b']) {
      await machine.makeDirectory(name)
      await machine.write(`${name}/first`, `first of ${name}`)
    }
    const [one, other] = [await machine.node('a'), await machine.node('b')]
    const held = holdUpdate(machine, step)
    const { parent } = await machine.parent('a')
    const exchanged = machine.drive.exchange(parent, 'a', parent, 'b')
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
    await machine.drain()
    const elsewhere = await account.open({}, 'elsewhere')
    expect(await elsewhere.tree()).toEqual(wanted)
  })
})
