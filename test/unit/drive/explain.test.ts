import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { explanation, type WireExplanation } from '../../../src/control/protocol.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { describeExplanation, remediesFor } from '../../../src/mount/explain-words.ts'
import { TUNING } from '../../../src/mount/build-drive.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'

const POST = { method: 'POST', path: /upload/ }
const NOW = { mountpoint: '/m', called: '/m', nowMs: Date.now(), cacheBytes: 1e8 }

let account: AccountInProcess
let user: DriveInProcess
beforeEach(async () => {
  account = await AccountInProcess.start()
  user = await account.open()
})

/** As a command gets it over the socket: nothing that the drive tells is lost on the way. */
async function told(path: string): Promise<WireExplanation> {
  const explained = await user.drive.commands.explain(path.split('/').filter((name) => name !== ''))
  const wire = explanation.parse(JSON.parse(JSON.stringify(explained)))
  expect(wire).toEqual(explained)
  return wire
}

/** What a person reads, without what is told of the path itself. */
async function words(path: string): Promise<string> {
  return describeExplanation(await told(path), NOW).join('\n')
}

async function commands(path: string): Promise<readonly string[]> {
  return remediesFor(await told(path), NOW).map(({ command }) => command)
}

/** What was uploaded elsewhere shows here. */
async function uploadElsewhere(name: string, content: string): Promise<string> {
  const bagId = await account.service.upload(name, content)
  await user.listing.refreshNow()
  return bagId
}

describe('a file that is stored', () => {
  it('is at the service, and fetched when it is read; then it is here too', async () => {
    const bagId = await uploadElsewhere('a.txt', 'content')
    expect(await told('a.txt')).toMatchObject({
      ...{ what: 'file', state: 'stored', bagId, bytes: 7, places: ['service'], isListed: true },
      ...{ changes: [], waitsFor: [], conflicts: [] },
    })
    expect(await words('a.txt')).toBe(
      [
        'Path:     /m/a.txt (file, 7 B)',
        'State:    stored',
        'Where:    at the service',
        'Where:    not on this machine: it is fetched when it is read',
        'To do:    bagfs warmup /m/a.txt  (fetches it ahead)',
      ].join('\n'),
    )
    await user.read('a.txt')
    expect(await told('a.txt')).toMatchObject({ places: ['service', 'cache'] })
    expect(await words('a.txt')).toContain('can be read without the network')
    expect(await commands('a.txt')).toEqual([])
  })

  it('is told to be here in part while it is', async () => {
    await uploadElsewhere('large', 'x'.repeat(600_000))
    const heal = account.service.proxy.add({
      match: { path: /download/ },
      fault: { stallResponseAfter: 300_000 },
    })
    const handle = await user.open('large')
    await user.drive.read(handle, Buffer.alloc(10), 0)
    const explained = await told('large')
    expect(explained.places).toEqual(['service', 'part-in-cache'])
    expect(explained.cached?.bytes).toBeGreaterThan(0)
    expect(await words('large')).toMatch(/Where: {4}\d+ k?B of it in the cache of this machine/)
    heal()
    await user.drive.release(handle)
  })

  it('is told not to be listed yet while the listing lags', async () => {
    account.service.proxy.lagListing(60_000)
    await user.write('a.txt', 'content')
    await user.drive.uploader.drain(AbortSignal.timeout(20_000))
    expect(await told('a.txt')).toMatchObject({ state: 'stored', isListed: false })
    expect(await words('a.txt')).toContain('does not list it yet')
  })

  it('tells that what it replaced is still to be deleted, and why it is not', async () => {
    account.service.proxy.add({
      match: { method: 'DELETE' },
      fault: { answer: { status: 422, body: '{"detail":"by the test"}' } },
    })
    await user.write('a.txt', 'old')
    await user.drain()
    await user.write('a.txt', 'new')
    const isTold = async (): Promise<string> => words('a.txt')
    await expect.poll(isTold).toMatch(/Waits: {4}for you: .*by the test/)
  })
})

describe('a file that is not stored', () => {
  it('is being written, until the program closes it', async () => {
    await user.write('a.txt', 'old')
    await user.drain()
    const handle = await user.open('a.txt', true)
    await user.drive.write(handle, Buffer.from('newer'), 0)
    expect(await told('a.txt')).toMatchObject({
      ...{ state: 'being written', places: ['this-machine'], hasOlder: true, bytes: 5 },
    })
    const text = await words('a.txt')
    expect(text).toContain('Where:    on this machine only\n')
    expect(text).toContain('Where:    the service has the version of before\n')
    expect(text).toContain('Waits:    for the program that writes it')
    await user.drive.release(handle)
  })

  it('waits in the outbox for the next try, and sync is what to do', async () => {
    const rarely = { ...TUNING.uploads, retryBaseMs: 1e9, retryMaxMs: 1e9 }
    user = await account.open({ tuning: { uploads: rarely } }, 'other')
    account.service.proxy.add({ match: POST, fault: { answer: { status: 500 } } })
    await user.write("it's a.txt", 'content')
    const failed = async () => (await told("it's a.txt")).changes[0]?.failure
    await expect.poll(failed).toBeDefined()
    expect(await told("it's a.txt")).toMatchObject({ places: ['outbox'] })
    const text = await words("it's a.txt")
    expect(text).toMatch(/State: {4}failed: .*will be tried again/)
    expect(text).toContain('in the outbox of this machine')
    expect(text).toMatch(/Waits: {4}for the next try, in \d+ (s|min|h|days)/)
    expect(await commands("it's a.txt")).toEqual([String.raw`bagfs sync '/m/it'\''s a.txt'`])
  })

  it('waits for the person when the service will never take it', async () => {
    account.service.proxy.add({
      match: POST,
      fault: { answer: { status: 422, body: '{"detail":"not this"}' } },
    })
    await user.write('a.txt', 'content')
    const state = async () => (await told('a.txt')).state
    await expect.poll(state).toContain('waits for you')
    expect(await words('a.txt')).toMatch(/Waits: {4}for you: .*not this/)
    const id = (await told('a.txt')).changes[0]?.id ?? ''
    expect(await commands('a.txt')).toEqual([
      `bagfs outbox retry /m ${id}`,
      `bagfs outbox save /m ${id} --to DIR`,
      `bagfs outbox discard /m ${id}`,
    ])
  })

  it('needs a login when the token is refused', async () => {
    account.service.proxy.add({ match: POST, fault: { answer: { status: 401 } } })
    await user.write('a.txt', 'content')
    await expect.poll(async () => (await commands('a.txt'))[0]).toBe('bagfs login')
  })

  it('says that the service does not answer', async () => {
    await account.service.proxy.down()
    await user.write('a.txt', 'content')
    await user.listing.refreshNow().catch(() => undefined)
    expect((await told('a.txt')).outage).toBeDefined()
    expect(await words('a.txt')).toContain('Service:  not to be had for now: ')
    expect(await commands('a.txt')).toEqual(['bagfs sync /m/a.txt', 'bagfs status /m'])
  })

  it('is a step of a save, litter of a program or a fifo, each in its words', async () => {
    await user.write('a.txt~', 'step')
    expect(await words('a.txt~')).toContain('Waits:    for the rename that ends the save')
    await user.write('.DS_Store', 'litter')
    expect(await told('.DS_Store')).toMatchObject({ places: ['this-machine'] })
    expect(await words('.DS_Store')).toContain('litter of a program: it is not sent')
    expect(await commands('.DS_Store')).toEqual([])
    const made = { mode: 0o600, uid: 0, gid: 0 }
    await user.drive.makeNode(ROOT, 'fifo', made, { kind: 'fifo', device: 0 })
    expect(await words('fifo')).toContain('the service cannot have it')
    await user.makeDirectory('folder')
    const folder = await user.node('folder')
    await user.drive.makeNode(folder, 'fifo', made, { kind: 'fifo', device: 0 })
    const inFolder = await words('folder/fifo')
    expect(inFolder).toContain('it stays on this machine')
    expect(inFolder).toContain('it is in the folder folder\n')
    expect(inFolder).not.toContain('stored with it')
  })

  it('waits for an earlier change of its name, or is a delete that waits', async () => {
    let release = (): void => undefined
    const isHeld = new Promise<void>((resolve) => {
      release = resolve
    })
    onTestFinished(() => {
      release()
    })
    await user.write('a.txt', 'old')
    await user.drain()
    account.service.proxy.add({
      match: { method: 'DELETE' },
      fault: { before: () => isHeld },
    })
    await user.drive.unlink(ROOT, 'a.txt')
    const deleting = async () => (await told('a.txt')).changes.map(({ kind }) => kind)
    await expect.poll(deleting).toEqual(['delete'])
    expect(await words('a.txt')).toContain(
      'it was deleted here, and the service is still to be told',
    )
    expect(await commands('a.txt')).toContain('bagfs sync /m')
    // Until it is on its way, new content would take its place.
    const { requests } = account.service.proxy
    await expect.poll(() => requests.some(({ method }) => method === 'DELETE')).toBe(true)
    await user.write('a.txt', 'new')
    expect((await told('a.txt')).waitsFor).toMatchObject([{ name: 'a.txt', kind: 'delete' }])
    expect(await words('a.txt')).toContain('Waits:    for an earlier change, of a.txt: ')
  })
})

describe('a name', () => {
  it('is told to be a code, with what the service calls it', async () => {
    await uploadElsewhere('a/b', 'content')
    const [shown = ''] = await user.names()
    expect((await told(shown)).name).toEqual({ service: 'a/b', why: ['coded'], others: [] })
    expect(await words(shown)).toContain('the service calls it "a/b", which cannot be a name here')
    // From any directory, it stays in the drive.
    expect((await commands(shown))[0]).toBe(`mv '/m/${shown}' /m/NAME`)
    const spaced = { ...NOW, mountpoint: '/my drive' }
    expect(remediesFor(await told(shown), spaced)[0]?.command).toMatch(/ '\/my drive\/NAME'$/)
  })

  it('is told to be cut when it is too long', async () => {
    await uploadElsewhere('x'.repeat(300), 'content')
    const [shown = ''] = await user.names()
    expect((await told(shown)).name?.why).toEqual(['cut'])
  })

  it('is one of several bags of a name: the newest, and the older ones', async () => {
    await uploadElsewhere('a.txt', 'old')
    await uploadElsewhere('a.txt', 'newer')
    const older = (await user.names()).find((name) => name !== 'a.txt') ?? ''
    expect((await told('a.txt')).name).toEqual({ service: 'a.txt', why: [], others: [older] })
    expect((await told(older)).name).toEqual({
      service: 'a.txt',
      why: ['older'],
      others: ['a.txt'],
    })
    expect(await words('a.txt')).toContain(`the older ones are ${older}`)
    expect(await words(older)).toContain('the newest has the plain name (a.txt)')
  })

  it('is told of a conflict on both sides, with the command that ends it', async () => {
    await user.write('a.txt', 'old')
    await user.drain()
    const handle = await user.drive.open(await user.node('a.txt'), {
      writable: true,
      truncate: false,
    })
    await user.drive.write(handle, Buffer.from('mine'), 0)
    await uploadElsewhere('a.txt', 'theirs')
    await user.drive.flush(handle)
    await user.drive.release(handle)
    const [conflict] = user.drive.commands.conflicts.list()
    const other = conflict?.other ?? ''
    expect(await words('a.txt')).toContain(
      `Conflict: a.txt was changed on another machine; that version is ${other}`,
    )
    expect(await commands('a.txt')).toContain(`rm '/m/${other}'`)
    expect((await told(other)).conflicts).toHaveLength(1)
  })
})

describe('a folder', () => {
  it('waits to rest with all that is in it, and is stored with it', async () => {
    await user.makeDirectory('f')
    expect(await words('f')).toContain('it is sent when something is put into it')
    await user.write('f/x', 'content')
    expect(await told('f/x')).toMatchObject({
      ...{ what: 'file', folder: 'f', bytes: 7, places: ['outbox'] },
      state: 'waits for the folder to rest',
    })
    expect(await words('f/x')).toContain('it is in the folder f, and stored with it')
    expect(await words('f')).toContain('Waits:    for the folder to rest')
    expect(await commands('f/x')).toEqual(['bagfs sync /m/f/x'])
    await user.drive.commands.sync()
    expect(await told('f/x')).toMatchObject({ state: 'stored', changes: [] })
    expect((await told('f/x')).places).toContain('service')
  })

  it('has files of its zip, files that are written, links and directories', async () => {
    await user.makeDirectory('f')
    await user.makeDirectory('f/d')
    await user.write('f/d/x', 'content')
    await user.drive.makeSymlink(await user.node('f'), 'link', 'd')
    await user.drive.commands.sync()
    await user.drop()
    user = await account.open({}, 'other')
    expect(await told('f/d/x')).toMatchObject({ what: 'file', state: 'stored', bytes: 7 })
    expect((await told('f/d/x')).places[0]).toBe('service')
    expect(await told('f/link/x')).toMatchObject({ path: 'f/d/x' })
    expect(await told('f/link')).toMatchObject({ what: 'link', folder: 'f' })
    await user.drive.makeSymlink(await user.node('f'), 'one', 'two')
    await user.drive.makeSymlink(await user.node('f'), 'two', 'one')
    await expect(told('f/one/x')).rejects.toMatchObject({ code: 'not-found' })
    expect(await told('f/d')).toMatchObject({ what: 'directory', folder: 'f' })
    const handle = await user.open('f/d/x', true)
    await user.drive.write(handle, Buffer.from('new'), 0)
    expect(await told('f/d/x')).toMatchObject({ state: 'being written', places: ['this-machine'] })
    await user.drive.release(handle)
  })

  it('tells what it had to be stored without', async () => {
    await user.makeDirectory('f')
    user.drive.commands.leftOut.note([{ folder: 'f', path: 'gone' }])
    const left = 'Missing:  f/gone is left out: another machine removed the version of f'
    expect(await words('f')).toContain(left)
    expect(await words('f/gone')).toContain(left)
  })

  it('is told of in the place of what is in it while it cannot be read', async () => {
    await user.makeDirectory('f')
    await user.write('f/x', 'content')
    await user.drive.commands.sync()
    await user.drop()
    user = await account.open({}, 'other')
    account.service.proxy.add({ match: { path: /download/ }, fault: { answer: { status: 404 } } })
    const kind = Buffer.from('folder')
    await user.drive.extended.set(await user.node('f'), 'user.bagfs.kind', kind)
    expect(await told('f/x')).toMatchObject({ path: 'f', unreadable: expect.anything() as unknown })
    expect(await words('f/x')).toContain('what is in it cannot be read: ')
  })

  it('is told to be in the outbox alone when it came back, and not to be at the service', async () => {
    await user.makeDirectory('folder')
    await user.write('folder/a', 'content')
    await user.drain()
    await user.remove('folder')
    await user.drain()
    account.service.proxy.add({ match: POST, fault: { answer: { status: 500 } } })
    const [item] = user.drive.commands.trash.items()
    if (item === undefined) throw new Error('The trash is empty.')
    await user.drive.commands.trash.restore(item.bagId)
    await user.write('folder/b', 'new')
    expect(await told('folder')).toMatchObject({ places: ['outbox'] })
    expect(await words('folder')).not.toContain('the version of before')
  })
})

describe('the commands that mend it', () => {
  it('name the drive as the person did, with quotes where a shell needs them', async () => {
    await uploadElsewhere('it is.txt', 'content')
    const explained = await told('it is.txt')
    const asNamed = (called: string, mountpoint = '/m'): readonly string[] =>
      remediesFor(explained, { ...NOW, called, mountpoint }).map(({ command }) => command)
    expect(asNamed('work:')).toEqual(["bagfs warmup 'work:it is.txt'"])
    expect(asNamed('/my drive', '/my drive')).toEqual(["bagfs warmup '/my drive/it is.txt'"])
  })
})

describe('what is not there', () => {
  it('is told to be in the trash, with the command that brings it back', async () => {
    await user.write('a.txt', 'content')
    await user.drain()
    await user.drive.unlink(ROOT, 'a.txt')
    await user.drain()
    const explained = await told('a.txt')
    expect(explained).toMatchObject({ what: 'missing', inTrash: [{ name: 'a.txt' }] })
    const id = explained.inTrash[0]?.bagId.slice(0, 8) ?? ''
    expect(await words('a.txt')).toMatch(/What: {5}deleted \d+ s ago, and kept in the trash/)
    expect(await commands('a.txt')).toEqual([`bagfs trash restore /m ${id}`])
  })

  it.each([
    ['removed from it', 'f/in/a.txt', 'f/b.txt', " --as 'f (before)'"],
    ['removed with it', 'f', undefined, ''],
  ])(
    'is told to be in the trash with its folder, where it was %s',
    async (_how, path, kept, as) => {
      await user.makeDirectory('f')
      await user.makeDirectory('f/in')
      await user.write('f/in/a.txt', 'content')
      await user.write('f/b.txt', 'other')
      await user.drain()
      await user.remove(path)
      if (kept !== undefined) await user.write(kept, 'changed')
      await user.drain()
      await user.drain()
      const explained = await told('f/in/a.txt')
      expect(explained).toMatchObject({
        what: 'missing',
        folder: 'f',
        inTrash: [{ isFolder: true }],
      })
      const id = explained.inTrash[0]?.bagId.slice(0, 8) ?? ''
      const why = kept === undefined ? 'deleted' : 'replaced'
      expect(await words('f/in/a.txt')).toMatch(
        new RegExp(String.raw`a version of the folder f has it that was ${why} \d+ s ago`),
      )
      expect(await commands('f/in/a.txt')).toEqual([`bagfs trash restore /m ${id}${as}`])
      await expect(told('f/in/other')).rejects.toMatchObject({ code: 'not-found' })
    },
  )

  it.each(['nothing', 'f/nothing', '.bagfs/nothing', '.bags/short', '.bagfs/trash/x'])(
    'is not found when nothing is known of it: %s',
    async (path) => {
      await user.makeDirectory('f')
      await expect(told(path)).rejects.toMatchObject({ code: 'not-found' })
    },
  )
})

describe('what the drive makes up', () => {
  it('is told by what it holds', async () => {
    account.service.proxy.add({ match: POST, fault: { answer: { status: 500 } } })
    expect(await told('')).toMatchObject({ what: 'drive' })
    expect(await commands('')).toEqual(['bagfs status /m'])
    const bagId = await uploadElsewhere('b.txt', 'content')
    await user.write('a.txt', 'content')
    expect(await told('.bagfs/status')).toMatchObject({ what: 'made-up', madeUp: 'control' })
    expect(await told('.bagfs/outbox/a.txt')).toMatchObject({
      ...{ madeUp: 'change', places: ['outbox'], changes: [{ name: 'a.txt' }] },
    })
    expect(await commands('.bagfs/outbox/a.txt')).toEqual(['bagfs sync /m'])
    expect(await words(`.bags/${bagId}`)).toContain('the drive shows it as b.txt')
    expect(await words(`.bags/${'0'.repeat(64)}`)).toContain('not in this account')
    await user.drive.unlink(ROOT, 'b.txt')
    await expect.poll(async () => user.names()).not.toContain('b.txt')
    const trash = await user.node('.bagfs/trash').catch(() => undefined)
    expect(trash).toBeUndefined()
    expect(await words('.bagfs/trash')).toContain('kept on this machine for a while')
  })
})

describe('what is pinned', () => {
  it('is told with how much of it is here, of what is in a folder and of a name that is gone too', async () => {
    const bagId = await uploadElsewhere('a', 'content')
    await user.makeDirectory('folder')
    await user.write('folder/x', 'content')
    await user.drive.commands.pin(['a'])
    await user.drive.commands.pin(['folder', 'x'])
    await expect.poll(() => words('a')).toContain('Pinned:   kept on this machine; all here')
    expect(await words('folder/x')).toContain('Pinned:   with the folder folder: kept on')
    expect(await commands('a')).toEqual([])
    await account.service.delete(bagId)
    await user.listing.refreshNow()
    expect(await words('a')).toContain('nothing has this name now')
    expect(await commands('a')).toContain('bagfs unpin /m/a')
  })
})
