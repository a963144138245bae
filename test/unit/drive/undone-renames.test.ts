import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { isSuperseded, isToSend, orderOf } from '../../../src/intents/rules.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { TestService } from '../../support/mounted-drive.ts'

/** A name for a step of a save: a rename to it is held, and can be undone without the service. */
const BACKUP = 'b~'

let dir: string
let service: TestService
let user: DriveInProcess

async function start(writeBack: boolean): Promise<void> {
  const { token, proxy } = service
  user = await DriveInProcess.open({ url: proxy.url, token, dir: join(dir, 'state'), writeBack })
  await write('a', 'same')
  await write('b', 'same')
  await allForgotten()
  service.forgetEvents()
}

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-undone-'))
  service = await TestService.start(join(dir, 'service'))
})
afterEach(async () => {
  await user.drop()
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

async function write(name: string, content: string): Promise<void> {
  const { handle } = await user.drive.create(ROOT, name, 0o644)
  await user.drive.write(handle, Buffer.from(content), 0)
  await user.drive.flush(handle)
  await user.drive.release(handle)
}

const move = (from: string, to: string): Promise<void> => user.drive.rename(ROOT, from, ROOT, to)

async function look(): Promise<void> {
  await user.listing.refreshNow()
  await user.drive.readDirectory(ROOT)
}

/** Everything is stored, and listed. */
async function allForgotten(): Promise<void> {
  await user.drain()
  const left = async (): Promise<unknown> => {
    await look()
    return user.outbox.intents()
  }
  await expect.poll(left).toEqual([])
}

/** Nothing is left to do but what is held. */
async function settled(): Promise<void> {
  const left = (): unknown =>
    user.outbox.intents().filter((each) => isToSend(each) || isSuperseded(user.outbox, each.id))
  await expect.poll(left).toEqual([])
}

/** The upload that `change` makes gets to the service after `meanwhile`. */
async function whileSent(
  change: () => Promise<void>,
  meanwhile: () => Promise<void>,
): Promise<void> {
  const arrived = deferred()
  const passed = deferred()
  const before = (): Promise<void> => {
    arrived.resolve()
    return passed.promise
  }
  service.proxy.add({ match: { method: 'POST' }, times: 1, fault: { before } })
  await change()
  await arrived.promise
  await meanwhile()
  passed.resolve()
}

/** What ends with the backup in its old place. Those of mode back need a change that is not sent when the next one comes. */
const UNDONE: Record<string, () => Promise<void>> = {
  'after the other was moved there and away': async () => {
    await move('b', BACKUP)
    await move('a', 'b')
    await settled()
    await move('b', 'a')
    await settled()
    await move(BACKUP, 'b')
  },
  'where content was written that is the same': async () => {
    await move('b', BACKUP)
    await write('b', 'same')
    await settled()
    await move(BACKUP, 'b')
  },
  'after it took the place of an older backup': async () => {
    await write(BACKUP, 'older')
    await allForgotten()
    await move('b', BACKUP)
    await move(BACKUP, 'b')
  },
  'after it took the place of a backup that was not sent': async () => {
    await write(BACKUP, 'older')
    await move('b', BACKUP)
    await move(BACKUP, 'b')
  },
  'where another machine stored something else': async () => {
    await move('b', BACKUP)
    await service.upload('b', 'theirs')
    await look()
    await move(BACKUP, 'b')
  },
}

const UNDONE_BACK: typeof UNDONE = {
  'while the other is moved away from there': async () => {
    await move('b', BACKUP)
    await move('a', 'b')
    await settled()
    await whileSent(
      () => move('b', 'a'),
      () => move(BACKUP, 'b'),
    )
  },
  'after the other was moved away while it was moved there': async () => {
    await move('b', BACKUP)
    await whileSent(
      () => move('a', 'b'),
      () => move('b', 'a'),
    )
    await settled()
    await move(BACKUP, 'b')
  },
  'while the other is moved there, and was moved away since': async () => {
    await move('b', BACKUP)
    await whileSent(
      () => move('a', 'b'),
      async () => {
        await move('b', 'a')
        await move(BACKUP, 'b')
      },
    )
  },
  'while content is written there that is the same': async () => {
    await move('b', BACKUP)
    await whileSent(
      () => write('b', 'same'),
      () => move(BACKUP, 'b'),
    )
  },
}

const CASES = [
  ...Object.entries(UNDONE).flatMap(([way, change]) =>
    [false, true].map((writeBack) => ({ way, change, writeBack })),
  ),
  ...Object.entries(UNDONE_BACK).map(([way, change]) => ({ way, change, writeBack: true })),
]

describe('a file that was renamed to a backup and gets its name back', () => {
  it.each(CASES)('is there, and alone: $way (write back: $writeBack)', async (each) => {
    await start(each.writeBack)
    await each.change()
    await user.drain()
    await look()
    const wanted = { a: 'same', b: 'same' }
    expect({ drive: await user.tree(), account: await service.contents() }).toEqual({
      drive: wanted,
      account: wanted,
    })
  })

  it('is a later change than what had its name meanwhile', async () => {
    await start(true)
    await move('b', BACKUP)
    await whileSent(
      () => move('a', 'b'),
      async () => {
        await move('b', 'a')
        await move(BACKUP, 'b')
        const inOrder = user.outbox
          .intents()
          .toSorted((one, other) => (orderOf(one) < orderOf(other) ? -1 : 1))
        expect(inOrder.at(-1)).toMatchObject({ kind: 'put', name: 'b' })
      },
    )
    await user.drain()
  })

  it('is not sent again when nothing else happened', async () => {
    await start(false)
    await move('b', BACKUP)
    await move(BACKUP, 'b')
    await allForgotten()
    expect({ uploads: service.uploads(), deletes: service.deletes() }).toEqual({
      uploads: [],
      deletes: 0,
    })
  })
})
