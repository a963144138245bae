import { expect, it } from 'vitest'
import { describeTraced, tracedToJson } from '../../../src/cli/trace-line.ts'
import type { TracedOperation } from '../../../src/control/protocol.ts'

const READ: TracedOperation = {
  type: 'operation',
  atMs: Date.UTC(2026, 10, 24, 14, 3, 11, 123),
  operation: 'read',
  path: '/docs/a b.txt',
  offset: 4096,
  size: 131_072,
  bytes: 15,
  tookMs: 0.41249,
  pid: 4403,
  program: 'cat',
}
const TIME = '2026-11-24T14:03:11.123Z'

it.each<[string, Partial<TracedOperation>]>([
  ['read /docs/a b.txt 131072 at 4096: ok 15, 0.41 ms, cat (4403)', {}],
  ['setattr /a to 3: ok, 1.20 s', setattr()],
  ['open /a: ENOENT, 3.00 ms, (7)', failed()],
  ['rename /a to /b: ok, 0.00 ms', { ...bare('rename'), to: '/b', tookMs: 0.0004 }],
  ['getattr -: ok, 3.00 ms', { ...bare('getattr'), path: undefined }],
  ['lookup /\\x1b[2J\\x0a: ok, 3.00 ms, \\x07 (1)', { ...bare('lookup'), ...unsafe() }],
])('puts an operation into words: %s', (line, some) => {
  expect(describeTraced({ ...READ, ...some })).toBe(`${TIME} ${line}`)
})

function bare(operation: string): Partial<TracedOperation> {
  const nothing = { offset: undefined, size: undefined, bytes: undefined }
  return { ...nothing, operation, path: '/a', tookMs: 3, pid: undefined, program: undefined }
}

function setattr(): Partial<TracedOperation> {
  return { ...bare('setattr'), size: 3, tookMs: 1200 }
}

function failed(): Partial<TracedOperation> {
  return { ...bare('open'), error: 'ENOENT', pid: 7 }
}

function unsafe(): Partial<TracedOperation> {
  return { path: '/\u001b[2J\n', pid: 1, program: '\u0007' }
}

it('tells how many operations are not shown', () => {
  expect(describeTraced({ type: 'lost', count: 12 })).toBe('12 operations are not shown.')
  expect(describeTraced({ type: 'lost', count: 1 })).toBe('1 operation is not shown.')
  expect(tracedToJson({ type: 'lost', count: 12 })).toBe('{"lost":12}')
})

it('is an object of JSON in one line, whatever a name holds', () => {
  const json = tracedToJson({ ...READ, path: '/\u001b\n' })
  expect(json).not.toMatch(/[\n\u001b]/)
  expect(JSON.parse(json)).toEqual({
    ...{ time: TIME, operation: 'read', path: '/\u001b\n', offset: 4096, size: 131_072 },
    ...{ result: 'ok', bytes: 15, tookMs: 0.412, pid: 4403, program: 'cat' },
  })
  const sparse = JSON.parse(tracedToJson({ ...READ, ...failed() })) as object
  expect(Object.keys(sparse)).toEqual(['time', 'operation', 'path', 'result', 'tookMs', 'pid'])
})
