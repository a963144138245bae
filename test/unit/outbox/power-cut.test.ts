import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import type { IntentId } from '../../../src/domain/ids.ts'
import { deferred } from '../../../src/domain/deferred.ts'
import { described, ofPut } from '../../../src/intents/transitions.ts'
import { putOf, requestedChanges } from './requested-changes.ts'
import { openWorkshop, type Workshop } from './workshop.ts'

const stop = new AbortController().signal
const BACK = { durable: true, retryBaseMs: 3_600_000, retryMaxMs: 3_600_000 }

const fileOf = ({ outbox }: Workshop, id: IntentId): string =>
  join(outbox.directory(id), 'intent.json')

/** What a power cut makes of a file whose bytes were not on the platter. */
function makeZeros(path: string): void {
  const { length } = readFileSync(path)
  writeFileSync(path, Buffer.alloc(length))
}

/** The next process finds what is on the disk now. */
async function cut(shop: Workshop): Promise<Workshop> {
  vi.spyOn(shop.outbox.sync, 'close').mockResolvedValue()
  return shop.restart()
}

async function describeAs({ outbox }: Workshop, id: IntentId, description: string): Promise<void> {
  await outbox.update(
    id,
    ofPut((put) => described(put, description)),
    { durable: false },
  )
}

/** As Linux does it: the first sync tells of the bytes that are lost, and the next succeeds. */
async function failOneSync(path: string): Promise<void> {
  const file = await open(path)
  const ofAll = Object.getPrototypeOf(file) as typeof file
  vi.spyOn(ofAll, 'sync').mockRejectedValueOnce(Object.assign(new Error('EIO'), { code: 'EIO' }))
  await file.close()
}

/** The disk takes nothing until the function that this answers is called. */
function holdDisk({ outbox }: Workshop): () => void {
  const disk = deferred()
  const { sync } = outbox
  const held = (['complete', 'completeGiven', 'passed'] as const).map((name) => {
    const real = sync[name].bind(sync)
    return vi.spyOn(sync, name).mockImplementation(async () => {
      await disk.promise
      await real()
    })
  })
  return () => {
    for (const spy of held) spy.mockRestore()
    disk.resolve()
  }
}

describe('a power cut', () => {
  it.each([
    ['zeros', (length: number) => length],
    ['less', (length: number) => length - 40],
    ['nothing', () => 0],
  ])(
    'that leaves %s of a change that was written a moment ago leaves what was promised',
    async (what, left) => {
      const shop = await openWorkshop(BACK)
      const id = await shop.put('a', 'content')
      await shop.outbox.sync.complete()
      const file = fileOf(shop, id)
      const promised = readFileSync(file)
      await describeAs(shop, id, 'first')
      const all = readFileSync(file)
      const end = promised.length + left(all.length - promised.length)
      const tail = Buffer.from(all.subarray(promised.length, end))
      writeFileSync(file, Buffer.concat([promised, what === 'zeros' ? tail.fill(0) : tail]))
      const after = await cut(shop)
      expect(putOf(after, id).description).toBe('')
      await describeAs(after, id, 'third')
      await describeAs(after, id, 'fourth')
      await after.outbox.sync.complete()
      const last = await after.restart()
      expect(putOf(last, id).description).toBe('fourth')
      expect(last.outbox.damaged()).toEqual([])
    },
  )

  it('takes what is stored from the outbox, and neither a program nor the cache gets what is left', async () => {
    let isKilled = true
    const shop = await openWorkshop({
      ...BACK,
      onStep: (step) => {
        if (step === 'cache.begin' && isKilled) throw new Error('killed')
      },
    })
    const id = await shop.put('a', 'content')
    await shop.uploader.drain(stop)
    const { bagId } = putOf(shop, id)
    if (bagId === undefined) throw new Error('It is not stored.')
    expect(shop.outbox.stagedAs(bagId)).toBeDefined()
    makeZeros(shop.outbox.contentPath(id))
    isKilled = false
    const after = await cut(shop)
    expect(after.outbox.stagedAs(bagId)).toBeUndefined()
    await after.uploader.drain(stop)
    expect(after.content.isComplete(bagId)).toBe(false)
    expect(await after.service.contents()).toEqual({ a: 'content' })
  })

  it('takes nothing of what an intent was before, however often that changes', async () => {
    const shop = await openWorkshop(BACK)
    const id = await shop.put('a', 'content')
    for (let change = 0; change < 150; change += 1) await describeAs(shop, id, String(change))
    const states = readFileSync(fileOf(shop, id), 'utf8').trimEnd().split('\n')
    expect(states.length).toBeLessThan(100)
    expect(putOf(await shop.restart(), id).description).toBe('149')
  })

  it('is no worse when a change could not be written whole: the next one counts', async () => {
    const shop = await openWorkshop(BACK)
    const id = await shop.put('a', 'content')
    const file = fileOf(shop, id)
    rmSync(file)
    mkdirSync(file)
    await expect(describeAs(shop, id, 'refused')).rejects.toMatchObject({ code: 'local-io' })
    rmdirSync(file)
    expect(putOf(shop, id).description).toBe('')
    // As a write that broke off leaves it.
    writeFileSync(file, '{"version":1,"kind":"pu')
    await describeAs(shop, id, 'next')
    expect(putOf(await shop.restart(), id).description).toBe('next')
  })

  it.each([
    [
      'zeros',
      (path: string) => {
        makeZeros(path)
      },
    ],
    [
      'less',
      (path: string) => {
        truncateSync(path, 3)
      },
    ],
    [
      'nothing',
      (path: string) => {
        rmSync(path)
      },
    ],
  ])('that leaves %s of content is told, and that is not sent', async (_, tear) => {
    const shop = await openWorkshop(BACK)
    const old = await shop.given('a', 'old content')
    const id = await shop.put('a', 'content', { replaces: [old] })
    tear(shop.outbox.contentPath(id))
    const after = await cut(shop)
    await after.uploader.drain(stop)
    expect(putOf(after, id).failure).toMatchObject({ code: 'not-found', waitsForUser: true })
    expect(requestedChanges(after)).not.toContain('DELETE')
    expect(await after.service.contents()).toEqual({ a: 'old content' })
  })

  it('that never comes leaves the drive in doubt of content that its disk failed to keep once', async () => {
    const shop = await openWorkshop(BACK)
    const old = await shop.given('a', 'old content')
    const [id, whole] = [
      await shop.put('a', 'content', { replaces: [old] }),
      await shop.put('b', 'whole'),
    ]
    await failOneSync(shop.outbox.contentPath(id))
    await expect(shop.outbox.sync.complete()).rejects.toThrow('EIO')
    // The kernel may have let go of the bytes.
    makeZeros(shop.outbox.contentPath(id))
    await shop.outbox.sync.complete()
    await shop.uploader.drain(stop)
    expect(putOf(shop, id).failure).toMatchObject({ code: 'not-found', waitsForUser: true })
    expect(shop.outbox.get(whole)).toMatchObject({ phase: 'confirmed' })
    expect(requestedChanges(shop)).not.toContain('DELETE')
    expect(await shop.service.contents()).toEqual({ a: 'old content', b: 'whole' })
  })

  it('that takes the note that content was sent makes it be looked for, not sent twice', async () => {
    const shop = await openWorkshop(BACK)
    const id = await shop.put('a', 'content')
    const file = fileOf(shop, id)
    const unsent = readFileSync(file)
    const content = shop.outbox.contentPath(id)
    const bytes = readFileSync(content)
    await shop.uploader.attempt(id)
    await shop.uploader.finished(id)
    await shop.uploader.close()
    writeFileSync(file, unsent)
    writeFileSync(content, bytes)
    const after = await cut(shop)
    expect(await after.uploader.drain(stop)).toEqual([])
    expect(after.service.uploads()).toEqual(['a'])
  })
})

describe('before it is on the platter that content is stored, or stands for other content', () => {
  it('a program is told that it was taken, and it is sent, but stays', async () => {
    const shop = await openWorkshop(BACK)
    const old = await shop.given('a', 'old content')
    const id = await shop.put('a', 'content', { replaces: [old] })
    const release = holdDisk(shop)
    await shop.uploader.attempt(id)
    expect(putOf(shop, id).phase).toBe('confirmed')
    expect(existsSync(shop.outbox.contentPath(id))).toBe(true)
    expect(requestedChanges(shop)).not.toContain('DELETE')
    release()
    await shop.uploader.finished(id)
    expect(existsSync(shop.outbox.contentPath(id))).toBe(false)
    expect(await shop.service.contents()).toEqual({ a: 'content' })
  })

  it('others are sent meanwhile', async () => {
    const shop = await openWorkshop({ ...BACK, concurrency: 1 })
    const ids = [
      await shop.put('a', 'one'),
      await shop.put('b', 'two'),
      await shop.put('c', 'three'),
    ]
    const release = holdDisk(shop)
    shop.uploader.start()
    await expect
      .poll(() => ids.map((id) => putOf(shop, id).phase))
      .toEqual(['confirmed', 'confirmed', 'confirmed'])
    release()
    for (const id of ids) await shop.uploader.finished(id)
  })

  it('what it takes the place of stays', async () => {
    const shop = await openWorkshop(BACK)
    const first = await shop.put('a', 'one')
    await shop.outbox.sync.complete()
    const second = await shop.put('a', 'two', { supersedes: [first] })
    const release = holdDisk(shop)
    const absorbed = shop.uploader.absorb(second)
    await shop.put('b', 'other', { phase: 'local' })
    expect(existsSync(fileOf(shop, first))).toBe(true)
    release()
    await absorbed
    expect(existsSync(fileOf(shop, first))).toBe(false)
  })

  it('no bag is deleted that it may be a copy of, nor is that written down', async () => {
    const shop = await openWorkshop(BACK)
    const old = await shop.given('a', 'content')
    await shop.put('copy', 'content', { phase: 'local' })
    const release = holdDisk(shop)
    const removed = shop.delete('a', [old])
    await shop.put('b', 'other', { phase: 'local' })
    expect(shop.outbox.intents().some(({ kind }) => kind === 'delete')).toBe(false)
    release()
    const id = await removed
    const releaseAgain = holdDisk(shop)
    const attempt = shop.uploader.attempt(id)
    await shop.put('c', 'third', { phase: 'local' })
    expect(requestedChanges(shop)).not.toContain('DELETE')
    releaseAgain()
    await attempt
    expect(requestedChanges(shop)).toContain('DELETE')
  })
})
