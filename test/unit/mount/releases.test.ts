import { expect, it } from 'vitest'
import { Releases } from '../../../src/mount/releases.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { recordingLog } from '../service/harness.ts'

function holding(longestMs: number) {
  const log = recordingLog()
  const order: string[] = []
  const releases = new Releases(longestMs)
  const add = (what: string): void => {
    releases.add(what, () => {
      order.push(what)
      return Promise.resolve()
    })
  }
  return { log, order, releases, add, run: () => releases.run({ clock: systemClock, log }) }
}

it('lets go in the opposite order, also after one that fails', async () => {
  const { order, releases, add, run } = holding(20_000)
  add('first')
  releases.add('broken', () => Promise.reject(new Error('broken')))
  add('last')
  await expect(run()).rejects.toThrow('broken')
  expect(order).toEqual(['last', 'first'])
})

it('leaves no timer behind, for which a process would wait at its end', async () => {
  const waits: (AbortSignal | undefined)[] = []
  const sleep = (ms: number, signal?: AbortSignal): Promise<void> => {
    waits.push(signal)
    return systemClock.sleep(ms, signal)
  }
  const { log, releases, add } = holding(20_000)
  add('first')
  add('last')
  await releases.run({ clock: { ...systemClock, sleep }, log })
  expect(waits.map((signal) => signal?.aborted)).toEqual([true, true])
})

it('waits for nothing that does not end, and keeps what that stands on', async () => {
  const { log, order, releases, add, run } = holding(10)
  add('lock')
  releases.add('uploader', () => new Promise(() => undefined))
  add('last')
  await expect(run()).rejects.toMatchObject({
    code: 'timed-out',
    message: 'The uploader of the drive does not end.',
  })
  expect(order).toEqual(['last'])
  expect(log.lines.map(({ fields }) => fields)).toEqual([{ what: 'uploader' }])
})
