import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import { toBagId } from '../../../src/domain/ids.ts'
import { createHttpService } from '../../../src/service/http-service.ts'
import type { StorageService } from '../../../src/service/storage-service.ts'
import type { WireMeter } from '../../../src/service/wire-meter.ts'
import { bytesOf, failureOf, fileToUpload, json, recordingLog, scripted, TOKEN } from './harness.ts'

const BAG = toBagId('a'.repeat(64))

interface Tally {
  readonly answered: string[]
  readonly failed: string[]
  readonly bytes: Map<string, number>
}

function metered(baseUrl: string): Tally & { readonly service: StorageService } {
  const tally: Tally = { answered: [], failed: [], bytes: new Map() }
  const add = (key: string, bytes: number): void => {
    tally.bytes.set(key, (tally.bytes.get(key) ?? 0) + bytes)
  }
  const meter: WireMeter = {
    sent: (endpoint, bytes) => {
      add(`${endpoint} up`, bytes)
    },
    received: (endpoint, bytes) => {
      add(`${endpoint} down`, bytes)
    },
    answered: (endpoint, status, tookMs) => {
      expect(tookMs).toBeGreaterThanOrEqual(0)
      tally.answered.push(`${endpoint} ${status}`)
    },
    failed: (endpoint, code) => {
      tally.failed.push(`${endpoint} ${code}`)
    },
  }
  const service = createHttpService(
    { log: recordingLog(), clock: systemClock, meter },
    { baseUrl, token: TOKEN, retryBaseMs: 1, retries: 1 },
  )
  onTestFinished(() => service.close())
  return { ...tally, service }
}

it('each request is told, by what was asked for and how it was answered', async () => {
  const server = await scripted(({ path }, response, turn) => {
    if (turn === 0) response.writeHead(503).end('busy')
    else if (path.endsWith('/user')) json(response, { uid: 'me', space_left: 1, capacity: 2 })
    else if (path.endsWith('files_list')) json(response, [])
    else if (path.endsWith('add_by_id')) json(response, { message: 'Bag added' })
    else if (path.includes('/download/')) response.end('content')
    else if (path.endsWith('upload')) json(response, { bag_id: BAG })
    else json(response, { success: true })
  })
  const { service, answered, failed } = metered(server.url)
  await service.getAccount()
  await service.listFiles()
  await service.addById(BAG)
  await bytesOf((await service.download(BAG)).body)
  await service.uploadFile(await fileToUpload('x'))
  await service.uploadFolder(await fileToUpload('x'))
  await service.deleteBag(BAG)
  expect(answered).toEqual([
    'account 503',
    'account 200',
    'list 200',
    'import 200',
    'download 200',
    'upload_file 200',
    'upload_folder 200',
    'delete 200',
  ])
  expect(failed).toEqual([])
})

it('bytes are told as they go up and come down', async () => {
  const server = await scripted(({ method }, response) => {
    if (method === 'GET') response.end(Buffer.alloc(300_000))
    else json(response, { bag_id: BAG })
  })
  const { service, bytes } = metered(server.url)
  await service.uploadFile(await fileToUpload(Buffer.alloc(200_000)))
  await bytesOf((await service.download(BAG)).body)
  await service.addById(BAG).catch(() => undefined)
  expect(bytes.get('upload_file up')).toBe(server.received[0]?.body.length)
  expect(bytes.get('download down')).toBe(300_000)
  expect(bytes.get('import up')).toBe(server.received[2]?.body.length)
})

it('what gets no answer, or half of one, is told by the code of its error', async () => {
  const server = await scripted(({ method }, response) => {
    if (method !== 'GET') response.destroy()
    else {
      response.writeHead(200, { 'content-length': '100' }).write('half')
      setImmediate(() => response.destroy())
    }
  })
  const { service, answered, failed } = metered(server.url)
  await failureOf(service.deleteBag(BAG))
  expect(answered).toEqual(['delete none', 'delete none'])
  expect(failed).toEqual(['delete unavailable', 'delete unavailable'])
  const { body } = await service.download(BAG)
  await failureOf(bytesOf(body))
  expect(answered.at(-1)).toBe('download 200')
  expect(failed.at(-1)).toBe('download unavailable')
})

it('what is given up before it is asked is no request', async () => {
  const { service, answered, failed } = metered('http://127.0.0.1:1')
  const signal = AbortSignal.abort(new Error('Not wanted.'))
  await expect(service.listFiles({ signal })).rejects.toBeDefined()
  expect([...answered, ...failed]).toEqual([])
})
