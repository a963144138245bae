import { expect, it } from 'vitest'
import type { TraceEvent, TraceFilter } from '../../../src/control/protocol.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import type { EndedOperation } from '../../../src/kernel/operation-watch.ts'
import { processOf } from '../../../src/kernel/asking-process.ts'
import { TraceHub } from '../../../src/trace/trace-hub.ts'
import { MOST_WAITING } from '../../../src/trace/trace-reader.ts'
import { withTraces } from '../../../src/trace/traced-watch.ts'

const ALL: TraceFilter = { operations: [] }
const READ: EndedOperation = { operation: 'read', path: '/a', tookMs: 1, error: undefined }

/** Threads of the process 40 have the numbers from 40 on. */
const hubOf = (): TraceHub =>
  new TraceHub({
    clock: systemClock,
    processOf: (thread) => ({ pid: thread - (thread % 10), program: 'cat' }),
  })

/** A reader, which sees what was told once a batch is taken. */
async function follow(hub: TraceHub, filter: TraceFilter = ALL) {
  const stop = new AbortController()
  const batches = hub.follow(filter, stop.signal)
  expect((await batches.next()).value).toEqual([{ type: 'begun' }])
  const take = async (): Promise<readonly TraceEvent[]> => {
    const next = await batches.next()
    return next.done === true ? [] : next.value
  }
  return { take, batches, stop: stop.abort.bind(stop) }
}

function tell(hub: TraceHub, some: Partial<EndedOperation> = {}, thread?: number): void {
  hub.began(thread)({ ...READ, ...some })
}

const pathsOf = (batch: readonly TraceEvent[]): readonly unknown[] =>
  batch.map((event) => (event.type === 'operation' ? event.path : event))

it('tells each operation in its order, to all who follow, with the process of its thread', async () => {
  const hub = hubOf()
  const [first, second] = [await follow(hub), await follow(hub)]
  tell(hub, { path: '/a', offset: 5, size: 10, bytes: 3, tookMs: 0.5 }, 42)
  tell(hub, { operation: 'open', path: '/b', error: 'ENOENT' })
  const batch = await first.take()
  expect(batch).toMatchObject([
    { operation: 'read', path: '/a', offset: 5, size: 10, bytes: 3, pid: 40, program: 'cat' },
    { operation: 'open', path: '/b', error: 'ENOENT' },
  ])
  expect(batch[1]).not.toHaveProperty('pid')
  expect(await second.take()).toEqual(batch)
})

it('keeps no more for a slow reader than a number of operations, and counts what it loses', async () => {
  const hub = hubOf()
  const { take } = await follow(hub)
  const quick = await follow(hub, { operations: ['write'] })
  for (let at = 0; at < MOST_WAITING + 12; at += 1) tell(hub, { path: `/${at}` })
  tell(hub, { operation: 'write' })
  const paths = pathsOf(await take())
  expect(paths).toHaveLength(MOST_WAITING + 1)
  expect(paths.slice(-2)).toEqual([`/${MOST_WAITING - 1}`, { type: 'lost', count: 13 }])
  expect(await quick.take()).toMatchObject([{ operation: 'write' }])
  tell(hub, { path: '/after' })
  expect(pathsOf(await take())).toEqual(['/after'])
})

it('asks for nothing while nobody follows', async () => {
  const hub = hubOf()
  const ended: string[] = []
  const watch = withTraces({ ended: (operation) => ended.push(operation) }, hub)
  expect(watch.tracer).toBeUndefined()
  const { batches, stop } = await follow(hub)
  expect(watch.tracer).toBe(hub)
  const pending = batches.next()
  stop()
  expect(await pending).toEqual({ value: undefined, done: true })
  expect(watch.tracer).toBeUndefined()
  const broken = await follow(hub)
  await broken.batches.return(undefined)
  expect(watch.tracer).toBeUndefined()
  watch.ended('read', 1, undefined)
  expect(ended).toEqual(['read'])
})

it('tells what there is when it is stopped', async () => {
  const hub = hubOf()
  const { take, batches, stop } = await follow(hub)
  tell(hub, { path: '/before' })
  expect(pathsOf(await take())).toEqual(['/before'])
  tell(hub, { path: '/last' })
  stop()
  expect(pathsOf(await take())).toEqual(['/last'])
  expect((await batches.next()).done).toBe(true)
})

it.each<[string, Partial<TraceFilter>, readonly string[]]>([
  ['operations', { operations: ['open', 'rename'] }, ['open /docs/a', 'rename /c']],
  ['paths', { path: '/docs' }, ['open /docs/a', 'rename /c', 'read /docs2']],
  ['directories', { path: '/docs/' }, ['open /docs/a', 'rename /c']],
  ['a process', { pid: 40 }, ['open /docs/a', 'read /docs2']],
  ['a thread', { pid: 42 }, ['read /docs2']],
  ['what took long', { slowMs: 10 }, ['rename /c']],
  ['all but a process', { without: 40 }, ['rename /c', 'statfs undefined']],
  ['several at once', { operations: ['read'], path: '/docs', pid: 40 }, ['read /docs2']],
])('tells of %s alone when it is asked to', async (_, filter, expected) => {
  const hub = hubOf()
  const { take } = await follow(hub, { ...ALL, ...filter })
  tell(hub, { operation: 'open', path: '/docs/a', tookMs: 10 }, 40)
  tell(hub, { operation: 'rename', path: '/c', to: '/docs/c', tookMs: 10.01 }, 50)
  tell(hub, { path: '/docs2' }, 42)
  tell(hub, { operation: 'statfs', path: undefined })
  const told = await take()
  expect(
    told.map((event) => event.type === 'operation' && `${event.operation} ${event.path}`),
  ).toEqual(expected)
})

it('knows the process of a thread, and its program', () => {
  expect(processOf(process.pid)).toMatchObject({
    pid: process.pid,
    program: expect.stringMatching(/./) as unknown,
  })
  // Beyond all that Linux gives.
  expect(processOf(5_000_000)).toEqual({ pid: 5_000_000 })
})
