import { describe, expect, it } from 'vitest'
import { UploadTurns } from '../../../src/outbox/upload-turns.ts'
import { ManualClock } from '../namespace/manual-clock.ts'
import { openWorkshop } from './workshop.ts'

describe('while a program closes one file after the other', () => {
  it('uploads begin one by one, and all that are left once it has stopped', async () => {
    const clock = new ManualClock()
    const shop = await openWorkshop({ clock })
    const { uploader, service } = shop
    const sent = (): readonly (string | undefined)[] => [...service.uploads()].sort()
    const ids = [
      await shop.put('a', 'one'),
      await shop.put('b', 'two'),
      await shop.put('c', 'three'),
    ]
    ids.push(await shop.put('d', 'four'))
    uploader.kickBehind()
    await expect.poll(sent).toEqual(['a'])
    for (const id of ids) await uploader.finished(id)
    expect(sent()).toEqual(['a'])
    clock.move(100)
    await expect.poll(sent).toEqual(['a', 'b', 'c', 'd'])
    for (const id of ids) await uploader.finished(id)
  })

  it('few begin at first, and more when it goes on', () => {
    const turns = new UploadTurns()
    const begun: number[] = []
    for (let nowMs = 1_000; nowMs < 4_000; nowMs += 5) {
      turns.noteClose(nowMs)
      if (turns.next(nowMs) !== undefined) continue
      turns.noteBegin(nowMs)
      begun.push(nowMs - 1_000)
    }
    expect(begun.filter((atMs) => atMs < 2_000)).toEqual([0, 250, 500, 750, 1000, 1250, 1500, 1750])
    expect(begun.filter((atMs) => atMs >= 2_000)).toHaveLength(40)
    // A pause ends it: all may begin, and what comes then is at its start again.
    expect(turns.next(4_200)).toBeUndefined()
    turns.noteBegin(4_200)
    turns.noteClose(4_210)
    expect(turns.next(4_220)).toBe(4_310)
  })

  it('nothing waits for a turn when the drive is emptied', async () => {
    const shop = await openWorkshop({ clock: new ManualClock() })
    const { uploader, service } = shop
    await shop.put('a', 'one')
    await shop.put('b', 'two')
    uploader.kickBehind()
    expect(await uploader.drain(new AbortController().signal)).toEqual([])
    expect([...service.uploads()].sort()).toEqual(['a', 'b'])
  })

  it('nothing waits for long when the clock is set back', async () => {
    const clock = new ManualClock()
    const shop = await openWorkshop({ clock })
    const { uploader, service } = shop
    const ids = [await shop.put('a', 'one'), await shop.put('b', 'two')]
    uploader.kickBehind()
    await expect.poll(() => service.uploads()).toEqual(['a'])
    clock.move(-500_000)
    uploader.kick()
    await expect.poll(() => service.uploads()).toEqual(['a', 'b'])
    for (const id of ids) await uploader.finished(id)
  })
})
