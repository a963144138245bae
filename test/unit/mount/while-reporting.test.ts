import { setImmediate } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { deferred } from '../../../src/domain/deferred.ts'
import { whileReporting } from '../../../src/mount/while-reporting.ts'
import { ManualClock } from '../namespace/manual-clock.ts'

it('reports at once and every half second until the work ends, and no more', async () => {
  const clock = new ManualClock()
  const move = async (ms: number): Promise<void> => {
    clock.move(ms)
    await setImmediate()
  }
  const work = deferred<string>()
  let reports = 0
  const ended = whileReporting(
    clock,
    () => (reports += 1),
    () => work.promise,
  )
  expect(reports).toBe(1)
  await move(499)
  expect(reports).toBe(1)
  await move(1)
  expect(reports).toBe(2)
  await move(500)
  expect(reports).toBe(3)
  work.resolve('done')
  expect(await ended).toBe('done')
  await move(5_000)
  expect(reports).toBe(3)
})

it('fails as the work does, and as a report does', async () => {
  const clock = new ManualClock()
  const failing = (): Promise<never> => Promise.reject(new Error('no work'))
  await expect(whileReporting(clock, () => undefined, failing)).rejects.toThrow('no work')
  const unheard = (): void => {
    throw new Error('no report')
  }
  await expect(whileReporting(clock, unheard, () => Promise.resolve(1))).rejects.toThrow(
    'no report',
  )
})
