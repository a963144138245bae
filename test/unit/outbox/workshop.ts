import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { BagCache } from '../../../src/content/bag-cache.ts'
import { systemClock, type Clock } from '../../../src/domain/clock.ts'
import { toBagId, type BagId, type IntentId } from '../../../src/domain/ids.ts'
import { newDelete, newPut } from '../../../src/intents/builders.ts'
import type { DeleteIntent, PutIntent } from '../../../src/intents/intent.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { Listing } from '../../../src/namespace/listing.ts'
import { buildTree } from '../../../src/namespace/tree.ts'
import { Jobs } from '../../../src/outbox/jobs.ts'
import { Outbox } from '../../../src/outbox/outbox.ts'
import type { FolderPort, TrashPort, UploaderSettings } from '../../../src/outbox/ports.ts'
import type { StepListener } from '../../../src/outbox/steps.ts'
import { Uploader } from '../../../src/outbox/uploader.ts'
import { withBreaker } from '../../../src/service/breaker.ts'
import { createHttpService } from '../../../src/service/http-service.ts'
import { deadlinesOf } from '../../../src/service/settings.ts'
import type { StorageService } from '../../../src/service/storage-service.ts'
import { FactsStore } from '../../../src/state/facts-store.ts'
import { ListingStore } from '../../../src/state/listing-store.ts'
import { TestService } from '../../support/mounted-drive.ts'

const SETTINGS: UploaderSettings = {
  concurrency: 8,
  retryBaseMs: 20,
  retryMaxMs: 100,
  listingLagMs: 400,
  deletingMs: 200,
  durable: false,
}

/** Folders have their own tests, on a real mount. */
const NO_FOLDERS: FolderPort = {
  pack: () => Promise.resolve(undefined),
  committed: () => Promise.resolve(false),
}

/** The trash has its own tests. */
const NO_TRASH: TrashPort = {
  whileFetched: (_bagId, _signal, task) => task(),
  keep: () => Promise.resolve(undefined),
  noteNotKept: () => undefined,
}

/** What the uploader works with, all of it real, and a hand to give it work. */
export interface Workshop {
  readonly service: TestService
  readonly outbox: Outbox
  readonly uploader: Uploader
  readonly listing: Listing
  readonly jobs: Jobs
  readonly content: BagCache
  readonly facts: FactsStore
  put(name: string, content: string, more?: Partial<PutIntent>): Promise<IntentId>
  delete(name: string, replaces: readonly BagId[], more?: Partial<DeleteIntent>): Promise<IntentId>
  /** What another client uploads; the listing knows it afterwards. */
  given(name: string, content: string): Promise<BagId>
  /** Ends the uploader and opens all anew on the same disk, as the next mount does. */
  restart(): Promise<Workshop>
}

export interface WorkshopOptions extends Partial<UploaderSettings> {
  readonly capacityBytes?: number
  readonly onStep?: StepListener
  readonly folders?: FolderPort
  /** With it, a service that is silent is not asked again for so long. */
  readonly pauseMs?: number
  /** Of the uploader; all else goes by the time of day. */
  readonly clock?: Clock
}

/** Begins with an empty account; all is gone when the test is over. */
export async function openWorkshop(options: WorkshopOptions = {}): Promise<Workshop> {
  const { capacityBytes, ...rest } = options
  const dir = mkdtempSync(join(tmpdir(), 'bagfs-outbox-'))
  onTestFinished(() => {
    rmSync(dir, { recursive: true, force: true })
  })
  const service = await TestService.start(
    join(dir, 'service'),
    capacityBytes === undefined ? {} : { capacityBytes },
  )
  onTestFinished(() => service.close())
  return open(join(dir, 'state'), service, rest)
}

/** A silent service is given up soon where a pause follows. */
function connect({ proxy, token }: TestService, pauseMs: number | undefined): StorageService {
  const base = { clock: systemClock, log: silentLogger }
  const place = { baseUrl: proxy.url, token, retries: 0 }
  if (pauseMs === undefined) return createHttpService(base, place)
  const impatient = createHttpService(base, { ...place, ...deadlinesOf(200) })
  return withBreaker(impatient, base, { firstPauseMs: pauseMs, longestPauseMs: pauseMs })
}

async function open(
  dir: string,
  service: TestService,
  options: Omit<WorkshopOptions, 'capacityBytes'>,
): Promise<Workshop> {
  const { onStep, folders = NO_FOLDERS, clock = systemClock, pauseMs, ...settings } = options
  const { durable = SETTINGS.durable } = settings
  const base = { clock: systemClock, log: silentLogger }
  const steps = onStep === undefined ? {} : { onStep }
  const http = connect(service, pauseMs)
  const facts = await FactsStore.open(base, { dir })
  const outbox = await Outbox.open({ ...base, ...steps }, { dir: join(dir, 'outbox') })
  const store = new ListingStore(dir)
  const listing = await Listing.open(
    { ...base, service: http, store },
    { ttlMs: 1_000, waitMs: 100 },
  )
  const content = await BagCache.open(
    { ...base, service: http, facts, listedSizes: (bagId) => listing.sizesOf(bagId) },
    {
      dir: join(dir, 'cache'),
      maxBytes: 1e8,
      minFreeBytes: 0,
      graceMs: 10,
      resumeTries: 1,
      silenceMs: 30_000,
    },
  )
  const isShown = (bagId: BagId): boolean =>
    buildTree(listing.current()?.index, outbox.intents()).usesOf(bagId) > 0
  const jobs = new Jobs()
  const uploader = new Uploader(
    {
      ...base,
      jobs,
      clock,
      outbox,
      service: http,
      listing,
      content,
      facts,
      folders,
      trash: NO_TRASH,
      isShown,
      ...steps,
    },
    { ...SETTINGS, ...settings },
  )
  let isOpen = true
  const close = async (): Promise<void> => {
    if (!isOpen) return
    isOpen = false
    await uploader.close()
    await listing.close()
    await content.close()
    await outbox.close()
    await facts.close()
    await http.close()
  }
  onTestFinished(close)
  return {
    service,
    outbox,
    uploader,
    jobs,
    listing,
    content,
    facts,
    put: (name, text, more) => addPut({ outbox, durable }, name, text, more),
    delete: (name, replaces, more) => addDelete(outbox, name, replaces, more),
    given: async (name, text) => {
      const bagId = toBagId(await service.upload(name, text))
      await listing.refreshNow()
      service.forgetEvents()
      return bagId
    },
    restart: async () => {
      await close()
      return open(dir, service, options)
    },
  }
}

async function addPut(
  { outbox, durable }: { readonly outbox: Outbox; readonly durable: boolean },
  name: string,
  text: string,
  more: Partial<PutIntent> = {},
): Promise<IntentId> {
  const { id, path } = outbox.createDraft()
  writeFileSync(path, text)
  const sha256 = createHash('sha256').update(text).digest('hex')
  const now = Date.now()
  await outbox.add(
    newPut({
      id,
      name,
      createdAtMs: now,
      description: '',
      mode: 0o644,
      mtimeMs: now,
      content: { from: 'staged', length: Buffer.byteLength(text), sha256 },
      ...more,
    }),
    { durable },
  )
  return id
}

async function addDelete(
  outbox: Outbox,
  name: string,
  replaces: readonly BagId[],
  more: Partial<DeleteIntent> = {},
): Promise<IntentId> {
  const id = outbox.nextId()
  await outbox.add(newDelete({ id, name, createdAtMs: Date.now(), replaces, ...more }), {
    durable: false,
  })
  return id
}
