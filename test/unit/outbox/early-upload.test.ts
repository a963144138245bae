import { createHash } from 'node:crypto'
import { closeSync, openSync, writeSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { expect, it, vi } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import type { PutIntent } from '../../../src/intents/intent.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { deferred } from '../../../src/outbox/deferred.ts'
import type { FolderPort, GrowingContent } from '../../../src/outbox/ports.ts'
import { rawZip } from '../folder/support.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

vi.setConfig({ testTimeout: 60_000 })
const SLOWLY = { timeout: 30_000 }
const PATIENT = { retryBaseMs: 3_600_000, retryMaxMs: 3_600_000 }
const HALF = 2_000_000
const WHOLE = rawZip([{ name: 'a', content: Buffer.alloc(2 * HALF, 'a') }])

/** A folder whose zip is half packed, and goes on when the test lets it. */
async function halfPacked(
  told: { readonly length?: number; readonly capacityBytes?: number } = {},
) {
  const goOn = deferred()
  let packed = 0
  let file = -1
  const folders: FolderPort = {
    committed: () => Promise.resolve(false),
    pack: async (_put, path, { onGrowing }) => {
      packed += 1
      const partial = `${path}.partial`
      file = openSync(partial, 'w')
      writeSync(file, WHOLE, 0, HALF)
      const zip: GrowingContent = {
        path: partial,
        length: told.length ?? WHOLE.length,
        reached: (bytes) => (bytes <= HALF ? Promise.resolve() : goOn.promise),
      }
      onGrowing(zip)
      await goOn.promise
      await rename(partial, path)
      const sha256 = createHash('sha256').update(WHOLE).digest('hex')
      return { length: WHOLE.length, sha256, operations: 1, mtimeMs: 0 }
    },
  }
  const { capacityBytes = 1e9 } = told
  const said: string[] = []
  const log = { ...silentLogger, info: (_fields: unknown, words: string) => said.push(words) }
  const shop = await openWorkshop({ folders, capacityBytes, log, ...PATIENT })
  const more = { isFolder: true, content: { from: 'folder' }, changes: { start: 0 } } as const
  const id = await shop.put('F', '', more)
  const attempt = shop.uploader.attempt(id)
  attempt.catch(() => undefined)
  await expect.poll(() => sentBytes(shop), SLOWLY).toBeGreaterThan(0)
  return {
    ...{ shop, id, attempt, said },
    packed: () => packed,
    finishPacking: () => {
      writeSync(file, WHOLE, HALF)
      closeSync(file)
      goOn.resolve()
    },
    failPacking: goOn.reject,
  }
}

function sentBytes({ service }: Workshop): number {
  const upload = service.proxy.requests.findLast(({ method }) => method === 'POST')
  return upload?.bodyBytes ?? 0
}

async function isStored({ service }: Workshop, name: string): Promise<boolean> {
  return (await service.contentOf(name)).equals(WHOLE)
}

it('is confirmed with what was packed in the end, and its progress is told', async () => {
  const { shop, id, attempt, finishPacking } = await halfPacked()
  const [progress] = shop.uploader.progress()
  expect(progress).toMatchObject({ name: 'F', totalBytes: WHOLE.length })
  expect(progress?.sentBytes).toBeGreaterThan(0)
  finishPacking()
  await attempt
  await shop.uploader.finished(id)
  expect(await isStored(shop, 'F')).toBe(true)
  expect(shop.service.uploads()).toEqual(['F.zip'])
  expect(shop.outbox.get(id)).toMatchObject({ phase: 'confirmed', content: { from: 'staged' } })
})

it('is written down before the service can have the whole of it', async () => {
  const { shop, id, attempt, finishPacking } = await halfPacked()
  const before: (PutIntent['sentAtMs'] | 'folder')[] = []
  shop.outbox.onChange(() => {
    const intent = shop.outbox.get(id)
    if (intent?.kind === 'put' && sentBytes(shop) < WHOLE.length) {
      before.push(intent.content.from === 'folder' ? 'folder' : intent.sentAtMs)
    }
  })
  finishPacking()
  await attempt
  expect(before).toEqual([expect.any(Number)])
})

it('goes under another name when it got one meanwhile, and only under that', async () => {
  const { shop, id, attempt, finishPacking } = await halfPacked()
  await shop.outbox.update(id, (latest) => ({ ...latest, name: 'G' }), { durable: false })
  finishPacking()
  await attempt
  expect(shop.service.uploads()).toEqual(['G.zip'])
  expect(await isStored(shop, 'G')).toBe(true)
})

it('leaves nothing at the service when it is discarded meanwhile', async () => {
  const { shop, id, attempt, finishPacking } = await halfPacked()
  await shop.outbox.remove(id)
  finishPacking()
  await expect(attempt).rejects.toThrow()
  await shop.uploader.finished(id)
  expect(await shop.service.list()).toEqual([])
})

it('fails as the packing does, and has certainly not arrived', async () => {
  const { shop, id, attempt, failPacking } = await halfPacked()
  failPacking(new DriveError('local-disk-full', 'The disk is full.'))
  await expect(attempt).rejects.toMatchObject({ code: 'local-disk-full' })
  await shop.uploader.finished(id)
  expect(await shop.service.list()).toEqual([])
  const intent = shop.outbox.get(id)
  expect(intent).toMatchObject({ content: { from: 'folder' }, failure: { tries: 1 } })
  expect(intent).not.toHaveProperty('sentAtMs')
})

it('gives way to a usual upload when it breaks off before its end', async () => {
  const { shop, id, attempt, packed, said, finishPacking } = await halfPacked()
  await shop.service.proxy.down()
  await shop.service.proxy.up()
  finishPacking()
  await attempt
  await shop.uploader.finished(id)
  expect(shop.service.uploads()).toEqual(['F.zip'])
  expect(await isStored(shop, 'F')).toBe(true)
  expect(packed()).toBe(1)
  expect(said).toContain('A zip that was sent early is sent once more.')
})

it('gives way to a usual upload when the zip is not as long as was thought', async () => {
  const { shop, attempt, finishPacking } = await halfPacked({ length: WHOLE.length - 1 })
  finishPacking()
  await attempt
  expect(shop.service.uploads()).toEqual(['F.zip'])
  expect(await isStored(shop, 'F')).toBe(true)
})

it('is not sent once more when the service has refused it before its end', async () => {
  const { shop, attempt, finishPacking } = await halfPacked({ capacityBytes: 1_000_000 })
  await expect.poll(() => shop.service.events.map(({ status }) => status), SLOWLY).toContain(400)
  finishPacking()
  await expect(attempt).rejects.toMatchObject({ code: 'no-space' })
  expect(shop.service.proxy.requests.filter(({ method }) => method === 'POST')).toHaveLength(1)
  expect(await shop.service.list()).toEqual([])
})
