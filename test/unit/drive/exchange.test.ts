import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { isDriveError } from '../../../src/domain/errors.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

const REFUSED = { match: { method: 'POST' }, fault: { answer: { status: 503 } } } as const

async function exchange(machine: DriveInProcess, one: string, other: string): Promise<void> {
  const [from, to] = [await machine.parent(one), await machine.parent(other)]
  await machine.drive.exchange(from.parent, from.name, to.parent, to.name)
}

async function nodesOf(machine: DriveInProcess, ...paths: readonly string[]) {
  return Promise.all(paths.map((path) => machine.node(path)))
}

/** What makes `a` and `b` in the root, and in `F`, of all kinds and states. */
const KINDS: readonly {
  readonly what: string
  /** Sent before the exchange. */
  readonly stored?: readonly string[]
  /** Made after that. */
  readonly waiting?: readonly string[]
}[] = [
  { what: 'stored files', stored: ['a', 'b', 'F/a', 'F/b'] },
  { what: 'a stored file and one that waits', stored: ['a', 'F/a'], waiting: ['b', 'F/b'] },
  { what: 'a file that waits and a stored one', stored: ['b', 'F/b'], waiting: ['a', 'F/a'] },
  { what: 'files that wait', waiting: ['a', 'b', 'F/a', 'F/b'] },
  {
    what: 'a folder and a file',
    stored: ['a/in', 'b', 'F/a/in', 'F/b'],
  },
  {
    what: 'a folder with changes and a stored one',
    stored: ['a/in', 'b/in', 'F/a/in', 'F/b/in'],
    waiting: ['a/more', 'F/a/more'],
  },
]

async function make(machine: DriveInProcess, paths: readonly string[] = []): Promise<void> {
  for (const path of paths) {
    const names = path.split('/').slice(0, -1)
    for (const [depth] of names.entries()) {
      const directory = names.slice(0, depth + 1).join('/')
      const isThere = await machine.node(directory).catch(() => undefined)
      if (isThere === undefined) await machine.makeDirectory(directory)
    }
    // One that the service refuses waits.
    await machine.write(path, `what was ${path}`).catch(refusedByService)
  }
}

function refusedByService(error: unknown): void {
  if (!isDriveError(error, 'unavailable')) throw error
}

const exchanged = (path: string): string =>
  path.replace(
    /^(F\/)?([ab])(?=\/|$)/,
    (_, top: string = '', name) => top + (name === 'a' ? 'b' : 'a'),
  )

describe('two names that are exchanged', () => {
  const cases = KINDS.flatMap((kind) => [true, false].map((writeBack) => ({ ...kind, writeBack })))

  it.each(cases)(
    'have what the other had, now, after a kill and stored: $what (write back: $writeBack)',
    async ({ stored = [], waiting = [], writeBack }) => {
      const account = await AccountInProcess.start()
      let machine = await account.open({ writeBack })
      await make(machine, stored)
      await machine.drive.commands.sync()
      await machine.drive.commands.refresh()
      if (!writeBack) account.service.proxy.add(REFUSED)
      await make(machine, waiting)
      const [a, b, inA, inB] = await nodesOf(machine, 'a', 'b', 'F/a', 'F/b')
      await exchange(machine, 'a', 'b')
      await exchange(machine, 'F/a', 'F/b')
      expect(await nodesOf(machine, 'a', 'b', 'F/a', 'F/b')).toEqual([b, a, inB, inA])
      const files = [...stored, ...waiting].map((path) => [exchanged(path), `what was ${path}`])
      const wanted: unknown = Object.fromEntries(files)
      expect(await machine.tree()).toEqual(wanted)
      await machine.drop()
      account.service.proxy.clear()
      machine = await account.open({ writeBack })
      expect(await machine.tree()).toEqual(wanted)
      await machine.drain()
      const elsewhere = await account.open({}, 'elsewhere')
      expect(await elsewhere.tree()).toEqual(wanted)
      expect(await elsewhere.names()).toEqual(['F', 'a', 'b'])
    },
  )

  it('leave open files what they are: what is written goes to the new name', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await make(machine, ['a', 'b', 'F/a', 'F/b'])
    await machine.drain()
    for (const top of ['', 'F/']) {
      const reader = await machine.open(`${top}a`)
      const writer = await machine.drive.open(await machine.node(`${top}b`), {
        writable: true,
        truncate: false,
      })
      await machine.drive.write(writer, Buffer.from('WHAT'), 0)
      await exchange(machine, `${top}a`, `${top}b`)
      await machine.drive.write(writer, Buffer.from('WAS'), 5)
      expect(await machine.readAll(reader)).toBe(`what was ${top}a`)
      await machine.drive.flush(writer)
      await machine.drive.release(writer)
      await machine.drive.release(reader)
      expect(await machine.read(`${top}a`)).toBe(`WHAT WAS ${top}b`)
      expect(await machine.read(`${top}b`)).toBe(`what was ${top}a`)
    }
    await machine.drain()
    const elsewhere = await account.open({}, 'elsewhere')
    expect(await elsewhere.tree()).toEqual(await machine.tree())
  })

  it.each(['stored', 'waiting'])(
    'of the root lose nothing by a kill in between (%s)',
    async (are) => {
      const account = await AccountInProcess.start()
      let machine = await account.open()
      if (are === 'waiting') account.service.proxy.add(REFUSED)
      await make(machine, ['a', 'b'])
      if (are === 'stored') await machine.drain()
      await machine.drive.commands.refresh()
      account.service.proxy.add(REFUSED)
      const outbox = join(account.dir, 'state/outbox/v2')
      const before = filesIn(outbox)
      await exchange(machine, 'a', 'b')
      await machine.drop()
      // The second change as it was before.
      const [last = ''] = machine.outbox
        .intents()
        .filter(({ name }) => name === 'a')
        .map(({ id }) => id)
      const intent = join(outbox, last, 'intent.json')
      const old = before.get(intent)
      if (old === undefined) rmSync(join(outbox, last), { recursive: true })
      else writeFileSync(intent, old)
      account.service.proxy.clear()
      machine = await account.open()
      const contents = async (): Promise<unknown> => Object.values(await machine.tree()).sort()
      expect(await contents()).toEqual(['what was a', 'what was b'])
      expect(await machine.read('b')).toBe('what was a')
      await machine.drain()
      await machine.drive.commands.refresh()
      expect(await contents()).toEqual(['what was a', 'what was b'])
    },
  )

  it.each([1, 2])('of a folder are exchanged whole after a kill at line %i', async (lines) => {
    const account = await AccountInProcess.start()
    let machine = await account.open()
    await make(machine, ['F/a', 'F/b'])
    await machine.drain()
    await exchange(machine, 'F/a', 'F/b')
    const wanted = await machine.tree()
    await machine.drop()
    const [id = ''] = machine.outbox
      .intents()
      .flatMap((intent) => (intent.phase === 'held' ? intent.id : []))
    const journal = join(account.dir, 'state/outbox/v2', id, 'journal.jsonl')
    const written = readFileSync(journal, 'utf8').split('\n').slice(0, lines)
    writeFileSync(journal, `${written.join('\n')}\n`)
    machine = await account.open()
    expect(await machine.tree()).toEqual(wanted)
    await machine.drain()
    const elsewhere = await account.open({}, 'elsewhere')
    expect(await elsewhere.tree()).toEqual(wanted)
  })

  it('stay where they cannot be exchanged', async () => {
    const account = await AccountInProcess.start()
    const machine = await account.open()
    await make(machine, ['a', 'F/a', 'F/d/e', 'G/a'])
    const fifo = { kind: 'fifo', device: 0 } as const
    for (const top of ['', 'F/']) {
      const { parent, name } = await machine.parent(`${top}fifo`)
      await machine.drive.makeNode(parent, name, { mode: 0o644 }, fifo)
    }
    const before = [await machine.names(), await machine.names('F'), await machine.read('G/a')]
    for (const [one, other, code] of [
      ['a', 'F/a', 'invalid'],
      ['G/a', 'F/a', 'invalid'],
      ['F/d', 'F/d/e', 'invalid'],
      ['F/d/e', 'F/d', 'invalid'],
      ['a', 'fifo', 'invalid'],
      ['F/a', 'F/fifo', 'invalid'],
      ['a', 'none', 'not-found'],
      ['F/none', 'F/a', 'not-found'],
    ] as const) {
      await expect(exchange(machine, one, other), `${one} ${other}`).rejects.toMatchObject({ code })
    }
    const after = [await machine.names(), await machine.names('F'), await machine.read('G/a')]
    expect(after).toEqual(before)
  })
})

/** Contents of the intents of an outbox, by path. */
function filesIn(outbox: string): ReadonlyMap<string, string> {
  const paths = readdirSync(outbox, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('intent.json'))
    .map((path) => join(outbox, path))
  return new Map(paths.map((path) => [path, readFileSync(path, 'utf8')]))
}
