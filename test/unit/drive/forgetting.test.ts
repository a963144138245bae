import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { ROOT } from '../../../src/drive/tree/nodes.ts'
import { startLocalService, type LocalService } from '../../../src/local-service/server.ts'
import { buildTree } from '../../../src/namespace/tree.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'

describe('a drive that forgets finished changes', () => {
  let dir: string
  let service: LocalService
  let user: DriveInProcess
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-forget-'))
    service = await startLocalService(
      { dataDir: join(dir, 'service'), tokens: ['token'] },
      { log: silentLogger },
    )
    const state = join(dir, 'state')
    user = await DriveInProcess.open({
      ...{ url: service.url, token: 'token', dir: state, writeBack: false },
    })
  })
  afterEach(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const write = async (name: string, content: string): Promise<void> => {
    const { handle } = await user.drive.create(ROOT, name, 0o644)
    await user.drive.write(handle, Buffer.from(content), 0)
    await user.drive.flush(handle)
    await user.drive.release(handle)
  }
  /** Asks for a new listing, and has the drive look at it. */
  const look = async (): Promise<void> => {
    await user.listing.refreshNow()
    await user.drive.readDirectory(ROOT)
  }
  const allForgotten = async (): Promise<void> => {
    await expect
      .poll(async () => {
        await look()
        return user.outbox.intents()
      })
      .toEqual([])
  }

  it('keeps those that hide one which changes at that moment', async () => {
    await write('a', 'first')
    await write('a', 'more than first')
    await user.drive.unlink(ROOT, 'a')
    const [oldest] = user.outbox.intents()
    if (oldest === undefined) throw new Error('There is no change.')
    const shown: string[] = []
    user.outbox.onChange(() => {
      const tree = buildTree(undefined, user.outbox.intents())
      shown.push(...Array.from(tree.entries(), (entry) => entry.shown))
    })
    let isLooking = true
    const keepChanging = async (): Promise<void> => {
      while (isLooking) {
        await user.outbox.update(
          oldest.id,
          (latest) => ({ ...latest, createdAtMs: latest.createdAtMs + 1 }),
          { durable: false },
        )
        // The drive's own work has its turn between two changes.
        await nextTurn()
      }
    }
    const changing = keepChanging()
    // Each listing is a reason to forget all three.
    for (let round = 0; round < 20; round += 1) {
      await look()
      await user.listing.keep()
    }
    isLooking = false
    await changing
    await allForgotten()
    expect(shown).toEqual([])
  })

  it('has the listing on disk before', async () => {
    await write('kept', 'content')
    const [stored] = user.outbox.intents()
    const bagId = stored?.kind === 'put' ? stored.bagId : undefined
    const path = join(dir, 'state/listing.json')
    let kept: string | undefined
    user.outbox.onChange(() => {
      if (user.outbox.intents().length === 0)
        kept ??= existsSync(path) ? readFileSync(path, 'utf8') : ''
    })
    await allForgotten()
    await expect.poll(() => kept).toContain(bagId)
  })

  it('forgets none while the listing cannot be kept', async () => {
    await write('kept', 'content')
    const inTheWay = join(dir, 'state/listing.json')
    rmSync(inTheWay, { force: true })
    mkdirSync(join(inTheWay, 'full'), { recursive: true })
    await look()
    expect(await user.listing.keep()).toBe(false)
    expect(user.outbox.intents()).toHaveLength(1)
    rmSync(inTheWay, { recursive: true })
    await allForgotten()
  })
})
