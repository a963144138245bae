import { describe, expect, it } from 'vitest'
import type { KeptAttributes } from '../../../src/domain/attributes.ts'
import { AccountInProcess } from '../../support/account-in-process.ts'
import type { DriveInProcess } from '../../support/drive-in-process.ts'
import { restore } from '../../support/trash.ts'

const SET: KeptAttributes = {
  mode: 0o2751,
  mtimeMs: 86_400_000.5,
  atimeMs: 1_000_000_000_123.456,
  uid: 1001,
  gid: 2_000_000_000,
}
const TAG = 'user.tag'

/** What is done between two moves. */
const BETWEEN = {
  nothing: () => Promise.resolve(),
  stored: async (run: Run) => {
    await run.drive.drive.commands.sync()
    await run.drive.drain()
  },
  mounted: (run: Run) => run.mount(),
  'stored and mounted': async (run: Run) => {
    await run.drive.drive.commands.sync()
    await run.drive.drain()
    await run.mount()
  },
  'mounted and stored': async (run: Run) => {
    await run.mount()
    await run.drive.drive.commands.sync()
    await run.drive.drain()
  },
} as const

const FILE = ['file', 'renamed', 'one/file', 'one/d/file', 'two/file', 'back']
const DIRECTORY = ['one/d', 'one/e', 'two/d', 'top', 'two/e/f', 'one/d']

class Run {
  readonly #account: AccountInProcess
  drive: DriveInProcess

  private constructor(account: AccountInProcess, drive: DriveInProcess) {
    this.#account = account
    this.drive = drive
  }

  static async start(): Promise<Run> {
    const account = await AccountInProcess.start()
    const run = new Run(account, await account.open())
    for (const path of ['one', 'one/d', 'two', 'two/e']) await run.drive.makeDirectory(path)
    for (const path of ['file', 'one/d/deep', 'one/x', 'two/x', 'two/e/x']) {
      await run.drive.write(path, path)
    }
    return run
  }

  async mount(): Promise<void> {
    await this.drive.drop()
    this.drive = await this.#account.open()
  }

  async set(path: string): Promise<void> {
    const { drive } = this.drive
    const node = await this.drive.node(path)
    await drive.extended.set(node, TAG, Buffer.from(path))
    await drive.setAttributes(node, SET)
  }

  async check(path: string, first: string): Promise<void> {
    const { drive } = this.drive
    const node = await this.drive.node(path)
    expect(await drive.getAttributes(node), path).toMatchObject(SET)
    expect(String(await drive.extended.get(node, TAG)), path).toBe(first)
  }
}

describe.each(Object.keys(BETWEEN) as (keyof typeof BETWEEN)[])(
  'attributes go along with each move, with %s between',
  (between) => {
    it.each([
      { what: 'a file', way: FILE, below: '' },
      { what: 'a directory', way: DIRECTORY, below: '/deep' },
    ])('of $what', async ({ way, below }) => {
      const run = await Run.start()
      const [first = ''] = way
      if (below !== '') await run.set(first + below)
      await run.set(first)
      for (const [at, path] of way.entries()) {
        if (at > 0) await run.drive.rename(way[at - 1] ?? '', path)
        await run.check(path, first)
        await BETWEEN[between](run)
        await run.check(path, first)
        if (below !== '') await run.check(path + below, first + below)
      }
    })
  },
)

describe('attributes', () => {
  it.each(['file', 'one'])('of %s come back from the trash', async (path) => {
    const run = await Run.start()
    await run.set(path)
    await BETWEEN.stored(run)
    await run.check(path, path)
    await run.drive.remove(path)
    await BETWEEN.stored(run)
    await run.mount()
    await restore(run.drive, path)
    await run.check(path, path)
    await BETWEEN['stored and mounted'](run)
    await run.check(path, path)
  })

  it('are not those of a removed file of the same content and name', async () => {
    const run = await Run.start()
    await run.set('file')
    await BETWEEN.stored(run)
    await run.drive.remove('file')
    await BETWEEN.stored(run)
    await run.drive.write('file', 'file')
    const node = await run.drive.node('file')
    await run.drive.drive.setAttributes(node, { mode: 0o600 })
    await BETWEEN['stored and mounted'](run)
    const again = await run.drive.node('file')
    const told = await run.drive.drive.getAttributes(again)
    expect(told).toMatchObject({ mode: 0o600, uid: undefined, gid: undefined, extended: undefined })
  })

  it('of what is in a folder stay when that is renamed, written, or moved away with it', async () => {
    const run = await Run.start()
    const set = async (path: string) => {
      await run.set(path)
      await BETWEEN.stored(run)
    }
    await set('one/d')
    await set('one/x')
    await run.drive.rename('one', 'renamed')
    for (const path of ['d', 'x']) await run.check(`renamed/${path}`, `one/${path}`)
    await BETWEEN['stored and mounted'](run)
    for (const path of ['d', 'x']) await run.check(`renamed/${path}`, `one/${path}`)
    await run.drive.rename('renamed', 'two/inside')
    for (const path of ['d', 'x']) await run.check(`two/inside/${path}`, `one/${path}`)
    await BETWEEN['stored and mounted'](run)
    for (const path of ['d', 'x']) await run.check(`two/inside/${path}`, `one/${path}`)
    await run.drive.append('two/inside/x', 'more')
    await BETWEEN['stored and mounted'](run)
    const node = await run.drive.node('two/inside/x')
    const { mode, uid, gid } = SET
    expect(await run.drive.drive.getAttributes(node)).toMatchObject({ mode, uid, gid })
    expect(String(await run.drive.drive.extended.get(node, TAG))).toBe('one/x')
  })

  it.each(['file', 'one/x'])('of %s are those of what is made in its place', async (path) => {
    const run = await Run.start()
    await run.set(path)
    await run.drive.write(`${path}.new`, 'new')
    await run.drive.drive.setAttributes(await run.drive.node(`${path}.new`), { mode: 0o600 })
    await run.drive.rename(`${path}.new`, path)
    await BETWEEN['stored and mounted'](run)
    const told = await run.drive.drive.getAttributes(await run.drive.node(path))
    expect(told).toMatchObject({ mode: 0o600, uid: undefined, extended: undefined })
  })
})
