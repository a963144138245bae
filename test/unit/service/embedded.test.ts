import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { startLocalService } from '../../../src/local-service/server.ts'
import type { StorageService } from '../../../src/service/storage-service.ts'
import { bytesOf, failureOf, fileToUpload, serviceFor, TOKEN } from './harness.ts'

/** The client against the embedded service: two readings of one interface. */
async function embedded(capacityBytes = 10_000_000): Promise<StorageService> {
  const dataDir = await mkdtemp(path.join(tmpdir(), 'bagfs-embedded-'))
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
  const local = await startLocalService(
    { dataDir, tokens: [TOKEN], capacityBytes },
    { log: silentLogger },
  )
  onTestFinished(() => local.close())
  return serviceFor(local.url)
}

describe('the embedded service', () => {
  it('gives back what it was given', async () => {
    const service = await embedded()
    const name = 'Übersicht 🙂 (1) 100%.txt'
    const content = Buffer.from('hello '.repeat(50_000))
    const source = await fileToUpload(content, { name, description: 'für alle' })
    const bagId = await service.uploadFile(source)
    expect(await service.listFiles()).toMatchObject([
      { bagId, name, size: content.length, description: 'für alle' },
    ])
    const whole = await service.download(bagId)
    expect(whole).toMatchObject({ start: 0, totalLength: content.length, fileName: name })
    expect((await bytesOf(whole.body)).equals(content)).toBe(true)
    const rest = await service.download(bagId, { range: { start: 299_990, end: 299_995 } })
    expect(rest).toMatchObject({ start: 299_990, totalLength: content.length, acceptsRanges: true })
    expect((await bytesOf(rest.body)).toString()).toBe(content.toString().slice(299_990, 299_995))
    const { capacity, spaceLeft } = await service.getAccount()
    expect(capacity - spaceLeft).toBe(content.length)
    await service.deleteBag(bagId)
    await service.deleteBag(bagId)
    expect(await service.listFiles()).toEqual([])
    expect((await failureOf(service.download(bagId))).code).toBe('gone')
  })

  it.each([
    ['say "hi"', 'say "hi"'],
    ['ends in \\', 'ends in \\'],
    ['a\\\\b\\"c', 'a\\\\b\\"c'],
    ['line\nend \\', 'line%0Aend \\'],
  ])('has the file %j under the name %j', async (name, listed) => {
    const service = await embedded()
    await service.uploadFile(await fileToUpload('x', { name }))
    expect((await service.listFiles()).map((record) => record.name)).toEqual([listed])
  })

  it('takes an empty file, and finds a bag again that is imported', async () => {
    const service = await embedded()
    const bagId = await service.uploadFile(await fileToUpload('', { description: '' }))
    await service.addById(bagId)
    expect(await bytesOf((await service.download(bagId)).body)).toHaveLength(0)
  })

  it('refuses what does not fit, and nothing is in doubt', async () => {
    const service = await embedded(1000)
    const error = await failureOf(service.uploadFile(await fileToUpload(Buffer.alloc(5000))))
    expect(error).toMatchObject({ code: 'bad-request', facts: { status: 400 } })
    expect(error.facts.answerLost).toBeUndefined()
    expect(await service.listFiles()).toEqual([])
  })
})
