import { expect, it } from 'vitest'
import { GrowingZip } from '../../../../src/drive/folder/growing-zip.ts'

it('lets each reader go on when its bytes are there, and none wait when no more come', async () => {
  const zip = new GrowingZip('zip', 100)
  const reached: string[] = []
  const waiting = [40, 10, 100].map((bytes) =>
    zip.reached(bytes).then(
      () => reached.push(`${bytes}`),
      (error: unknown) => reached.push(`${bytes}: ${String(error)}`),
    ),
  )
  await zip.reached(0)
  expect(reached).toEqual([])
  zip.noteWritten(10)
  await waiting[1]
  expect(reached).toEqual(['10'])
  zip.noteWritten(40)
  await waiting[0]
  zip.noteEnd()
  await waiting[2]
  expect(reached).toEqual(['10', '40', expect.stringContaining('was not packed to its end')])
  await zip.reached(40)
  await expect(zip.reached(41)).rejects.toMatchObject({ code: 'interrupted' })
})
