import { describe, expect, it } from 'vitest'
import type { HandleId } from '../../../src/domain/ids.ts'
import { MovedHandles } from '../../../src/drive/moved-handles.ts'

const [old, next, last] = [1, 2, 3] as HandleId[] as [HandleId, HandleId, HandleId]

function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

describe('handles of files that move', () => {
  it('lead to the new place, over several moves, and are closed with all that they stood for', () => {
    const moved = new MovedHandles()
    expect(moved.current(old)).toBe(old)
    moved.lead(old, next)
    moved.lead(next, last)
    expect(moved.current(old)).toBe(last)
    expect(moved.forget(old)).toEqual([last, next, old])
    expect(moved.current(old)).toBe(old)
  })

  it('wait with changes while their file moves, and make them at the new place', async () => {
    const moved = new MovedHandles()
    const copied = gate()
    const move = moved.during([old], async () => {
      await copied.opened
      moved.lead(old, next)
    })
    const changed: HandleId[] = []
    const change = moved.change(old, (now) => changed.push(now))
    const other = moved.change(last, (now) => changed.push(now))
    expect(moved.isHeld(old)).toBe(true)
    expect(other).toBe(1)
    expect(changed).toEqual([last])
    copied.open()
    await move
    await change
    expect(changed).toEqual([last, next])
    expect(moved.isHeld(old)).toBe(false)
  })

  it('let a change end that was begun before', async () => {
    const moved = new MovedHandles()
    const written = gate()
    const steps: string[] = []
    const change = moved.change(old, async () => {
      await written.opened
      steps.push('changed')
    })
    const move = moved.during([old], () => Promise.resolve(steps.push('moved')))
    written.open()
    await Promise.all([change, move])
    expect(steps).toEqual(['changed', 'moved'])
  })

  it('go on at the old place when the move fails', async () => {
    const moved = new MovedHandles()
    const move = moved.during([old], () => Promise.reject(new Error('No room.')))
    const change = moved.change(old, (now) => now)
    await expect(move).rejects.toThrow('No room.')
    expect(await change).toBe(old)
  })
})
