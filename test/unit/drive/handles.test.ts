import { beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/domain/clock.ts'
import type { HandleId } from '../../../src/domain/ids.ts'
import { VirtualOpenFile } from '../../../src/drive/virtual/virtual-open-file.ts'
import { Handles } from '../../../src/drive/tree/handles.ts'
import type { OpenFile } from '../../../src/drive/tree/open-file.ts'
import { textFile } from '../../../src/drive/virtual/virtual-entry.ts'
import { SharedContent } from '../../../src/drive/virtual/kept-content.ts'

function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

/** Which files were closed, in that order. */
let closed: string[]
let handles: Handles

async function openFile(text: string): Promise<OpenFile> {
  const made = textFile(
    () => text,
    () => 0,
  )
  const content = await made.open()
  const source = { ...content.source, close: () => closed.push(text) }
  const shared = new SharedContent({ ...content, source }, 0)
  return new VirtualOpenFile(systemClock, shared, { writable: false })
}

async function textOf(id: HandleId): Promise<string> {
  const buffer = Buffer.alloc(10)
  return buffer.subarray(0, await handles.file(id).read(buffer, 0)).toString()
}

beforeEach(() => {
  closed = []
  handles = new Handles()
})

describe('handles of open files', () => {
  it('are refused before and after', async () => {
    const badHandle = expect.objectContaining({ code: 'bad-handle' }) as unknown
    expect(() => handles.file(1 as HandleId)).toThrow(badHandle)
    const id = handles.add(await openFile('file'))
    expect(await textOf(id)).toBe('file')
    await handles.release(id)
    expect(closed).toEqual(['file'])
    expect(() => handles.file(id)).toThrow(badHandle)
  })

  it('lead to the new place, over several moves, and close all that they stood for, the latest first', async () => {
    const id = handles.add(await openFile('old'))
    await handles.moveTo(id, await openFile('next'))
    await handles.moveTo(id, await openFile('last'))
    expect(await textOf(id)).toBe('last')
    expect(closed).toEqual([])
    await handles.release(id)
    expect(closed).toEqual(['last', 'next', 'old'])
  })

  it('wait with changes and with another move until a move has ended', async () => {
    const ids = [handles.add(await openFile('one')), handles.add(await openFile('other'))]
    const first = gate()
    const order: string[] = []
    const moves = [
      handles.during(ids.slice(0, 1), async () => {
        await first.opened
        order.push('first')
      }),
      handles.during(ids, () => Promise.resolve(order.push('second'))),
    ]
    const change = ids.map((id) => handles.change(id, () => order.push('change')))
    first.open()
    await Promise.all([...moves, ...change])
    expect(order[0]).toBe('change')
    expect(order.indexOf('first')).toBeLessThan(order.indexOf('second'))
    expect(ids.some((id) => handles.isMoving(id))).toBe(false)
  })

  it('wait with changes while their file moves, and make them at the new place', async () => {
    const [old, next, other] = await Promise.all(['old', 'next', 'other'].map(openFile))
    if (old === undefined || next === undefined || other === undefined) throw new Error('Three.')
    const [id, otherId] = [handles.add(old), handles.add(other)]
    const copied = gate()
    const move = handles.during([id], async () => {
      await copied.opened
      await handles.moveTo(id, next)
    })
    const changed: OpenFile[] = []
    const change = handles.change(id, (file) => changed.push(file))
    expect(handles.change(otherId, (file) => changed.push(file))).toBe(1)
    expect(handles.isMoving(id)).toBe(true)
    expect(await textOf(id)).toBe('old')
    expect(changed).toEqual([other])
    copied.open()
    await move
    await change
    expect(changed).toEqual([other, next])
    expect(handles.isMoving(id)).toBe(false)
  })

  it('let a change end that was begun before', async () => {
    const id = handles.add(await openFile('file'))
    const written = gate()
    const steps: string[] = []
    const change = handles.change(id, async () => {
      await written.opened
      steps.push('changed')
    })
    const move = handles.during([id], () => Promise.resolve(steps.push('moved')))
    written.open()
    await Promise.all([change, move])
    expect(steps).toEqual(['changed', 'moved'])
  })

  it('go on at the old place when the move fails', async () => {
    const file = await openFile('file')
    const id = handles.add(file)
    const move = handles.during([id], () => Promise.reject(new Error('No room.')))
    const change = handles.change(id, (now) => now)
    await expect(move).rejects.toThrow('No room.')
    expect(await change).toBe(file)
  })

  it('that are closed before a move begins, or while it goes on, are not in its way', async () => {
    const ids = [handles.add(await openFile('one')), handles.add(await openFile('other'))]
    const [one, other] = ids as [HandleId, HandleId]
    const mayEnd = gate()
    const first = handles.during([other], () => mayEnd.opened)
    const second = handles.during(ids, async () => {
      expect([handles.isOpen(one), handles.isOpen(other)]).toEqual([false, true])
      await handles.moveTo(one, await openFile('nowhere'))
    })
    await handles.release(one)
    mayEnd.open()
    await Promise.all([first, second])
    expect(closed).toEqual(['one', 'nowhere'])
    expect(handles.isMoving(other)).toBe(false)
  })
})
