import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { DriveError, localDiskFull } from '../../../src/domain/errors.ts'
import { deferred } from '../../../src/domain/deferred.ts'
import type { FolderPort } from '../../../src/outbox/ports.ts'
import { rawZip } from '../zip/support.ts'
import { isTaken } from '../../../src/intents/rules.ts'
import { collecting, nextRound } from '../../../src/intents/rounds.ts'
import { ofPut, publish } from '../../../src/intents/transitions.ts'
import { openWorkshop } from './workshop.ts'

const PATIENT = { retryBaseMs: 3_600_000, retryMaxMs: 3_600_000 }
const ZIP = rawZip([{ name: 'a', content: 'content' }])

// eslint-disable-next-line @typescript-eslint/require-await -- pieces are asynchronous, and these are here already
async function* piecesOf(zip: Buffer): AsyncGenerator<Uint8Array> {
  yield zip
}

/** A folder that is being packed, and is done when the test says so. */
async function packing() {
  const begun = deferred()
  const goOn = deferred()
  const folders: FolderPort = {
    committed: () => Promise.resolve(false),
    pack: async (_put, path) => {
      begun.resolve()
      await goOn.promise
      await writeFile(path, ZIP)
      const sha256 = createHash('sha256').update(ZIP).digest('hex')
      return { length: ZIP.length, sha256, operations: 1, mtimeMs: 0 }
    },
  }
  const shop = await openWorkshop({ folders, ...PATIENT })
  const more = { isFolder: true, content: { from: 'folder' }, changes: { start: 0 } } as const
  const id = await shop.put('F', '', more)
  const attempt = shop.uploader.attempt(id)
  attempt.catch(() => undefined)
  await begun.promise
  return { shop, id, attempt, finish: goOn.resolve, fail: goOn.reject }
}

it('is written down as sent, with its zip, before the service has it', async () => {
  const { shop, id, attempt, finish } = await packing()
  const before: unknown[] = []
  shop.outbox.onChange(() => {
    const intent = shop.outbox.get(id)
    if (intent?.kind !== 'put' || isTaken(intent)) return
    before.push({ from: intent.content.from, isSent: intent.sentAtMs !== undefined })
    expect(shop.service.uploads()).toEqual([])
  })
  finish()
  await attempt
  await shop.uploader.finished(id)
  expect(before).toEqual([
    { from: 'staged', isSent: false },
    { from: 'staged', isSent: true },
  ])
  expect(shop.service.uploads()).toEqual(['F.zip'])
  expect((await shop.service.contentOf('F')).equals(ZIP)).toBe(true)
})

it('goes under the name that it got while it was packed, and only under that', async () => {
  const { shop, id, attempt, finish } = await packing()
  await shop.outbox.update(id, (latest) => ({ ...latest, name: 'G' }), { durable: false })
  finish()
  await attempt
  expect(shop.service.uploads()).toEqual(['G.zip'])
})

it('leaves nothing at the service when it is discarded while it is packed', async () => {
  const { shop, id, attempt, finish } = await packing()
  await shop.outbox.remove(id)
  finish()
  await expect(attempt).rejects.toThrow()
  await shop.uploader.finished(id)
  expect(await shop.service.list()).toEqual([])
})

it('fails as the packing does, and has certainly not arrived', async () => {
  const { shop, id, attempt, fail } = await packing()
  fail(new DriveError('local-io', 'The disk is broken.'))
  await expect(attempt).rejects.toMatchObject({ code: 'local-io' })
  await shop.uploader.finished(id)
  expect(await shop.service.list()).toEqual([])
  const intent = shop.outbox.get(id)
  expect(intent).toMatchObject({ content: { from: 'folder' }, failure: { tries: 1 } })
  expect(intent).not.toHaveProperty('sentAtMs')
})

it('is the zip of now when that goes straight to the service, and not one of a try before', async () => {
  const later = rawZip([{ name: 'a', content: 'changed' }])
  const toZip = (zip: Buffer) => ({
    length: zip.length,
    sha256: createHash('sha256').update(zip).digest('hex'),
    operations: 1,
    mtimeMs: 0,
  })
  let isFull = false
  const folders: FolderPort = {
    committed: () => Promise.resolve(false),
    pack: async (_put, path, { isStraight }) => {
      if (isStraight === true) return { ...toZip(later), pieces: () => piecesOf(later) }
      if (isFull) throw localDiskFull('No zip')
      await writeFile(path, ZIP)
      return toZip(ZIP)
    },
  }
  const shop = await openWorkshop({ folders, ...PATIENT })
  const more = { isFolder: true, content: { from: 'folder' }, changes: { start: 0 } } as const
  const id = await shop.put('F', '', more)
  await shop.service.proxy.down()
  await expect(shop.uploader.attempt(id)).rejects.toThrow()
  await shop.outbox.update(id, ofPut(collecting), { durable: false })
  await shop.outbox.update(id, publish, { durable: false })
  isFull = true
  await expect(shop.uploader.attempt(id)).rejects.toThrow()
  await shop.service.proxy.up()
  await shop.uploader.attempt(id)
  await shop.uploader.finished(id)
  expect(later).toHaveLength(ZIP.length)
  expect((await shop.service.contentOf('F')).equals(later)).toBe(true)
})

it('takes nothing away in a round whose zip is not stored, where that begins while the round before is carried out', async () => {
  const stored: string[] = []
  const folders: FolderPort = {
    committed: (_put, bagId) => {
      stored.push(bagId)
      return Promise.resolve(false)
    },
    pack: async (_put, path) => {
      await writeFile(path, ZIP)
      const sha256 = createHash('sha256').update(ZIP).digest('hex')
      return { length: ZIP.length, sha256, operations: 2, mtimeMs: 0 }
    },
  }
  const shop = await openWorkshop({ folders, ...PATIENT })
  const old = await shop.given('F', 'old')
  const base = await shop.given('F', 'base')
  const id = await shop.put('F', 'base', {
    ...{ isFolder: true, phase: 'confirmed', bagId: base, confirmedAtMs: Date.now() },
    ...{ replaces: [old], changes: { base: old, start: 0, packed: 1 } },
  })
  // A start after a kill finds more changes than the stored zip has.
  const adopt = shop.content.adopt.bind(shop.content)
  shop.content.adopt = async (...what) => {
    shop.content.adopt = adopt
    const zip = { bagId: base, packed: 1, deleted: [], forgetBeforeMs: 0 }
    await shop.outbox.update(
      id,
      ofPut((latest) => nextRound(latest, zip)),
      { durable: false },
    )
    await adopt(...what)
  }
  await shop.uploader.attemptRest(id)
  expect(shop.outbox.get(id)).toMatchObject({ phase: 'held', replaces: [old, base] })
  expect(shop.outbox.get(id)).not.toHaveProperty('replacedAreDeleted')
  expect(stored).toEqual([])
  await shop.outbox.update(id, publish, { durable: false })
  await shop.uploader.attempt(id)
  await shop.uploader.finished(id)
  expect(stored).toHaveLength(1)
  expect((await shop.service.list()).map(({ bag_id }) => bag_id)).toEqual(stored)
})
