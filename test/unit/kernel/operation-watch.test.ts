import { constants } from 'node:os'
import { expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import type { NodeId } from '../../../src/domain/ids.ts'
import type { KernelAnswer } from '../../../src/kernel/dev-fuse/answer.ts'
import type { KernelRequest } from '../../../src/kernel/dev-fuse/request.ts'
import { allOperations } from '../../../src/kernel/dev-fuse/operations.ts'
import { watchedOperations } from '../../../src/kernel/dev-fuse/watched-operations.ts'
import { operationNames } from '../../../src/kernel/operation-names.ts'
import type { OperationTracer } from '../../../src/kernel/operation-watch.ts'
import { fuseOperations } from '../../../src/kernel/operations.ts'
import { watchedHandlers } from '../../../src/kernel/watched-handlers.ts'

const { errno } = constants

function recording() {
  const ended: [string, string | undefined][] = []
  return {
    ended,
    watch: {
      ended: (operation: string, tookMs: number, error: string | undefined): void => {
        expect(tookMs).toBeGreaterThanOrEqual(0)
        ended.push([operation, error])
      },
    },
  }
}

function neverTraced(): never {
  throw new Error('No trace runs.')
}

const REQUEST: KernelRequest = {
  opcode: 0,
  unique: 2n,
  node: 1 as NodeId,
  pid: 1,
  uid: 0,
  gid: 0,
  body: Buffer.alloc(0),
  name: undefined,
  newName: undefined,
}

it('an operation is told when it ends, and what is answered at once stays so', async () => {
  const { ended, watch } = recording()
  const done: KernelAnswer = { parts: [] }
  const gone = new DriveError('not-found', 'It is gone.')
  let finish: (answer: KernelAnswer) => void = () => undefined
  const operations = watchedOperations(
    {
      READ: () => done,
      ACCESS: () => ({ errno: errno.EACCES }),
      WRITE: () => {
        throw new DriveError('no-space', 'It is full.')
      },
      OPEN: () => Promise.reject(gone),
      FLUSH: () =>
        new Promise((resolve) => {
          finish = resolve
        }),
    },
    watch,
    neverTraced,
  )
  expect(operations.READ?.(REQUEST)).toBe(done)
  expect(operations.ACCESS?.(REQUEST)).toEqual({ errno: errno.EACCES })
  expect(() => operations.WRITE?.(REQUEST)).toThrow('It is full.')
  const flush = operations.FLUSH?.(REQUEST)
  await expect(operations.OPEN?.(REQUEST)).rejects.toBe(gone)
  const early = [
    ['read', undefined],
    ['access', 'EACCES'],
    ['write', 'ENOSPC'],
    ['open', 'ENOENT'],
  ]
  expect(ended).toEqual(early)
  finish(done)
  expect(await flush).toBe(done)
  expect(ended).toEqual([...early, ['flush', undefined]])
})

it('an operation of fuse-native is told with its reply, which is passed on as it is', () => {
  const { ended, watch } = recording()
  const replies: unknown[][] = []
  const reply = (...told: unknown[]): void => {
    replies.push(told)
  }
  const handlers = watchedHandlers(
    {
      open: (_path, flags, answer) => {
        answer(0, flags + 1)
      },
      unlink: (_path, answer) => {
        answer(-errno.EROFS)
      },
      read: (_path, _fd, _buffer, length, _position, answer) => {
        answer(length)
      },
    },
    watch,
  )
  handlers.open?.('/a', 6, reply)
  handlers.unlink?.('/a', reply)
  handlers.read?.('/a', 1, Buffer.alloc(3), 3, 0, reply)
  expect(replies).toEqual([[0, 7], [-errno.EROFS], [3]])
  expect(ended).toEqual([
    ['open', undefined],
    ['unlink', 'EROFS'],
    ['read', undefined],
  ])
})

it('a trace over fuse-native tells paths, ranges and bytes, and no process', () => {
  const { watch } = recording()
  const told: unknown[] = []
  const tracer: OperationTracer = {
    began: (thread) => (ended) => told.push([thread, ended]),
  }
  const reply = (): void => undefined
  const handlers = watchedHandlers(
    {
      read: (_path, _fd, _buffer, length, _position, answer) => {
        answer(length - 1)
      },
      ftruncate: (_path, _fd, _size, answer) => {
        answer(0)
      },
      rename: (_from, _to, answer) => {
        answer(-errno.EXDEV)
      },
      symlink: (_target, _path, answer) => {
        answer(0)
      },
    },
    { ...watch, tracer },
  )
  handlers.read?.('/a', 7, Buffer.alloc(3), 3, 4096, reply)
  handlers.ftruncate?.('/a', 7, 12, reply)
  handlers.rename?.('/a', '/docs/b', reply)
  handlers.symlink?.('target', '/link', reply)
  const taking = { tookMs: expect.any(Number) as unknown }
  expect(told).toMatchObject([
    [undefined, { ...taking, operation: 'read', path: '/a', offset: 4096, size: 3, bytes: 2 }],
    [undefined, { ...taking, operation: 'ftruncate', path: '/a', size: 12, bytes: undefined }],
    [undefined, { operation: 'rename', path: '/a', to: '/docs/b', error: 'EXDEV' }],
    [undefined, { operation: 'symlink', path: '/link' }],
  ])
})

it('the names of operations are those that the bridges have', () => {
  // Neither calls anything of a drive before it is asked.
  const nothing = {} as never
  const withDrive = { drive: { onParting: () => undefined } } as never
  const ofDevFuse = Object.keys(allOperations(nothing)).map((name) => name.toLowerCase())
  const ofFuseNative = Object.keys(fuseOperations(withDrive, nothing, nothing))
  expect([...operationNames('dev-fuse')].sort()).toEqual(ofDevFuse.sort())
  expect([...operationNames('fuse-native')].sort()).toEqual(ofFuseNative.sort())
})
