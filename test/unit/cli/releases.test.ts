import { expect, it } from 'vitest'
import { Releases } from '../../../src/cli/releases.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { recordingLog } from '../service/harness.ts'

it('lets go in the opposite order, and waits for nothing that does not end', async () => {
  const log = recordingLog()
  const order: string[] = []
  const releases = new Releases(10)
  const ends = (what: string) => () => {
    order.push(what)
    return Promise.resolve()
  }
  releases.add('first', ends('first'))
  releases.add('hung', () => new Promise(() => undefined))
  releases.add('broken', () => Promise.reject(new Error('broken')))
  releases.add('last', ends('last'))
  await expect(releases.run({ clock: systemClock, log })).rejects.toThrow('broken')
  expect(order).toEqual(['last', 'first'])
  expect(log.lines.map(({ fields }) => fields)).toEqual([{ what: 'hung' }])
})
