import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { measureArchive } from '../../../src/folder/measure.ts'
import type { PlanItem } from '../../../src/folder/plan.ts'
import { writeArchive } from '../../../src/folder/write.ts'
import { extraField, fileOf, leafAt, openBytes, rawZip, tempDir } from './support.ts'

/** Two seconds after the epoch, a time of 64 bits, and one with a fraction: each has fields of its own. */
const TIMES = [2_000, 5e12, 1_700_000_000_123.5]
const ARCHIVED = ['stored', 'deflated', 'lzma', 'aes', 'late']

async function archived() {
  const aes = extraField(0x9901, Buffer.from([2, 0, 0x41, 0x45, 3, 8, 0]))
  return openBytes(
    rawZip([
      { name: 'stored', content: 'stored '.repeat(300_000) },
      { name: 'deflated', content: 'deflated '.repeat(300_000), deflate: true },
      { name: 'lzma', method: 14, flags: 0x2, content: 'lzma data' },
      { name: 'aes', method: 99, flags: 0x1, content: 'aes data', extra: aes },
      { name: 'late', method: 99, flags: 0x9, content: 'aes data', extra: aes },
    ]),
  )
}

const item = fc.record({
  name: fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' }).filter(isName),
  mtimeMs: fc.constantFrom(...TIMES),
  mode: fc.constantFrom(0o644, 0o700),
  content: fc.oneof(
    fc.constant({ from: 'directory' as const }),
    fc.record({ from: fc.constant('symlink' as const), target: fc.constantFrom('x', '../ü') }),
    fc.record({
      from: fc.constant('file' as const),
      bytes: fc.uint8Array({ maxLength: 3_000 }),
      times: fc.constantFrom(1, 50),
    }),
    fc.record({ from: fc.constant('archive' as const), entry: fc.constantFrom(...ARCHIVED) }),
  ),
})

function isName(name: string): boolean {
  return !/[/\0]/.test(name) && !/^\.\.?$/.test(name) && Buffer.from(name).toString() === name
}

it('tells beforehand how long the zip of a plan will be', async () => {
  const dir = await tempDir()
  const archive = await archived()
  let runs = 0
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(item, { maxLength: 12, selector: ({ name }) => name }),
      async (items) => {
        runs += 1
        const plan: PlanItem[] = []
        for (const [index, { name: path, mode, mtimeMs, content }] of items.entries()) {
          const base = { path, mode, mtimeMs }
          if (content.from === 'directory') plan.push({ ...base, type: 'directory' })
          else if (content.from === 'symlink') {
            plan.push({ ...base, type: 'symlink', linkTarget: content.target })
          } else if (content.from === 'file') {
            const bytes = Buffer.concat(Array<Uint8Array>(content.times).fill(content.bytes))
            const file = await fileOf(dir, `${runs}-${index}`, bytes)
            plan.push({ ...base, type: 'file', content: file })
          } else {
            const node = leafAt(archive, content.entry)
            plan.push({ ...base, type: 'file', content: { from: 'archive', archive, node } })
          }
        }
        const target = join(dir, `${runs}.zip`)
        const expected = await measureArchive(plan)
        const { length } = await writeArchive(plan, target)
        expect(expected).toBe(length)
        expect((await stat(target)).size).toBe(length)
      },
    ),
    { numRuns: 150 },
  )
})

it('knows large media, which is stored, and not what large text deflates to', async () => {
  const dir = await tempDir()
  const large = async (path: string): Promise<PlanItem> => {
    const content = await fileOf(dir, path, Buffer.alloc(3_000_000, 'text '))
    return { path, type: 'file', mode: 0o644, mtimeMs: 0, content }
  }
  const media = [await large('a.mp4'), await large('b.zip')]
  const { length } = await writeArchive(media, join(dir, 'out.zip'))
  expect(await measureArchive(media)).toBe(length)
  expect(await measureArchive([...media, await large('c.txt')])).toBeUndefined()
})

it('knows when the directory needs 64 bits', async () => {
  const dir = await tempDir()
  const plan = Array.from({ length: 65_600 }, (_, index): PlanItem => ({
    path: `${index}`,
    type: 'directory',
    mode: 0o755,
    mtimeMs: 0,
  }))
  const { length } = await writeArchive(plan, join(dir, 'out.zip'))
  expect(await measureArchive(plan)).toBe(length)
})

it('tells of each byte when it can be read', async () => {
  const dir = await tempDir()
  const target = join(dir, 'out.zip')
  const content = await fileOf(dir, 'a', Buffer.alloc(3_000_000, 'text '))
  const plan: PlanItem[] = [{ path: 'a.mp4', type: 'file', mode: 0o644, mtimeMs: 0, content }]
  const told: number[] = []
  const checks: Promise<void>[] = []
  const { length } = await writeArchive(plan, target, {
    onWritten: (bytes) => {
      told.push(bytes)
      checks.push(
        stat(target).then(({ size }) => {
          expect(size).toBeGreaterThanOrEqual(bytes)
        }),
      )
    },
  })
  await Promise.all(checks)
  expect(told[0]).toBe(0)
  expect(told.at(-1)).toBe(length)
  expect(told).toEqual([...told].sort((a, b) => a - b))
  expect(told.length).toBeGreaterThan(3)
})
