import { afterEach, describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { deferred } from '../../../src/domain/deferred.ts'
import { eventually } from '../../support/eventually.ts'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, readAll, setUp, type Setup } from './fake-downloads.ts'
import { turns } from '../../support/turns.ts'

afterEach(cleanUp)

const MIB = 1024 * 1024
const BAG = id('a')
const CONTENT = noiseOf(48 * MIB, 7)
const CHUNK_MS = 10

/** Bodies that are under way. */
function bodiesOf({ service }: Setup): number {
  return service.requests.filter(({ body }) => body?.destroyed === false).length
}

/** Answers come over a line where a chunk takes so long; answers how many came at once, at most. */
function over(setup: Setup, msOf: (bodies: number) => number): () => number {
  let most = 0
  const beforeChunk = async (): Promise<void> => {
    const bodies = bodiesOf(setup)
    most = Math.max(most, bodies)
    setup.clock.advance(msOf(bodies))
    await new Promise((resolve) => setImmediate(resolve))
  }
  for (let i = 0; i < 200; i += 1) setup.service.faults.push({ beforeChunk })
  return () => most
}

const perConnection = (bodies: number): number => CHUNK_MS / bodies

/** All that needs no byte of the service is done. */
function settled(): Promise<void> {
  return turns(20)
}

async function given(options: Parameters<typeof setUp>[0] = {}): Promise<Setup> {
  const setup = await setUp({ announcesRanges: true, ...options })
  setup.service.contents.set(BAG, CONTENT)
  return setup
}

async function readWhole({ cache }: Setup): Promise<void> {
  const reader = cache.open(BAG)
  const content = await readAll(reader)
  expect(content.equals(CONTENT)).toBe(true)
  reader.close()
}

/** Where the ranges end that were asked for beside another. */
const endsOf = ({ service }: Setup): number[] =>
  service.requests.flatMap(({ end }) => (end === undefined ? [] : [end]))

const sentBy = ({ service }: Setup): number =>
  service.requests.reduce((sum, { sent }) => sum + sent, 0)

describe('a bag that is read from its beginning to its end', () => {
  it('comes by several requests at once, each to its end, so that its connection serves the next', async () => {
    const setup = await given({ streams: 4 })
    const most = over(setup, perConnection)
    await readWhole(setup)
    expect(most()).toBeGreaterThan(1)
    // But for what was under way when one met what another had brought.
    expect(sentBy(setup)).toBeLessThan(CONTENT.length + 4 * MIB)
    const ended = setup.service.requests.filter(({ end }) => end !== undefined)
    expect(ended.length).toBeGreaterThan(1)
    for (const { start, end, sent, body } of ended) {
      expect(sent).toBe((end ?? 0) - start)
      expect(body?.readableEnded).toBe(true)
    }
  })

  it.each([
    ['announced', { announcesRanges: false }, 0],
    ['answered', { ranges: false }, 3],
  ])('comes by one where ranges are not %s', async (_, options, beside) => {
    const setup = await given({ streams: 4, ...options })
    over(setup, perConnection)
    await readWhole(setup)
    expect(endsOf(setup).length).toBeLessThanOrEqual(beside)
    expect(sentBy(setup)).toBeLessThan(CONTENT.length + 8 * MIB)
  })

  it('comes by one where there is no room for more than a window of it', async () => {
    const setup = await given({ streams: 4, settings: { maxBytes: 8 * MIB } })
    const most = over(setup, perConnection)
    await readWhole(setup)
    expect(endsOf(setup).slice(4)).toEqual([])
    expect(most()).toBeLessThanOrEqual(4)
  })

  it('comes whole when each request beside the first is refused, and by one from then on', async () => {
    const refused = new DriveError('rate-limited', 'Too many at a time.', { status: 429 })
    const setup = await given({ streams: 4, endedRangeError: refused })
    await readWhole(setup)
    // Three beside the first, with four tries each.
    expect(endsOf(setup).length).toBeLessThanOrEqual(12)
    expect(sentBy(setup)).toBeLessThan(CONTENT.length + 4 * MIB)
  })

  it('comes by one once ETags tell of different content', async () => {
    const setup = await given({ streams: 4 })
    over(setup, perConnection)
    const { faults } = setup.service
    const [first, second] = faults
    faults.splice(0, 2, { ...first, etag: '"one"' }, { ...second, etag: '"two"' })
    await readWhole(setup)
    // It was told by one that was asked for beside the first.
    expect(endsOf(setup)).toHaveLength(1)
  })

  it('comes whole when each body is cut after a megabyte', async () => {
    const setup = await given({ streams: 4 })
    for (let i = 0; i < 60; i += 1) setup.service.faults.push({ cutAfter: MIB })
    await readWhole(setup)
  })

  it('waits for none of it that is far ahead', async () => {
    const setup = await given({ streams: 4 })
    setup.service.closeGate(3 * MIB)
    const reader = setup.cache.open(BAG)
    const head = Buffer.alloc(MIB)
    expect(await reader.read(head, 0)).toBe(MIB)
    expect(await reader.read(head, MIB)).toBe(MIB)
    expect(head.equals(CONTENT.subarray(MIB, 2 * MIB))).toBe(true)
    setup.service.openGate()
    reader.close()
  })

  it('is fetched no farther ahead of its reader than by one', async () => {
    const setup = await given({ streams: 4 })
    const reader = setup.cache.open(BAG)
    await reader.read(Buffer.alloc(MIB), 0)
    await eventually(() => {
      expect(setup.cache.heldOf(BAG).isDownloading).toBe(false)
    })
    expect(endsOf(setup).length).toBeGreaterThan(1)
    expect(Math.max(...endsOf(setup))).toBeLessThanOrEqual(33 * MIB)
    reader.close()
  })

  it('is not asked for twice where one request brings what another was asked for', async () => {
    const setup = await given({ streams: 2 })
    const held = deferred()
    setup.service.faults.push(undefined, { beforeChunk: () => held.promise })
    const reader = setup.cache.open(BAG)
    await reader.read(Buffer.alloc(MIB), 0)
    const [first, second] = setup.service.requests
    await eventually(() => {
      expect(first?.body?.destroyed).toBe(true)
    })
    expect(first?.sent).toBeLessThan((second?.start ?? 0) + 4 * MIB)
    held.resolve()
    expect((await readAll(reader)).equals(CONTENT)).toBe(true)
    reader.close()
  })

  it('is not asked for once more by reads that the kernel makes ahead, and is by a read far from them', async () => {
    const setup = await given()
    setup.service.closeGate(MIB)
    const reader = setup.cache.open(BAG)
    await reader.read(Buffer.alloc(1000), 0)
    const inARow = Array.from({ length: 12 }, (_, at) => reader.read(Buffer.alloc(MIB), at * MIB))
    await settled()
    expect(setup.service.requests.map(({ start }) => start)).toEqual([0])
    const far = reader.read(Buffer.alloc(MIB), 24 * MIB)
    await settled()
    expect(setup.service.requests.map(({ start }) => start)).toEqual([0, 24 * MIB])
    setup.service.openGate()
    await Promise.all([...inARow, far])
    reader.close()
  })

  it('leaves other bags a connection', async () => {
    const setup = await given({ streams: 4 })
    const other = id('b')
    setup.service.contents.set(other, CONTENT)
    setup.service.closeGate(MIB)
    const readers = [BAG, other].map((bag) => setup.cache.open(bag))
    const heads = readers.map((reader) => reader.read(Buffer.alloc(MIB), 0))
    await Promise.all(heads)
    expect(bodiesOf(setup)).toBeLessThanOrEqual(5)
    setup.service.openGate()
    for (const reader of readers) reader.close()
  })
})
