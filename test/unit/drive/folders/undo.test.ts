import {
  appendFileSync,
  closeSync,
  existsSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { layOver, readClosed, Undo } from '../../../../src/drive/folders/undo.ts'
import '../../../support/properties.ts'

const LENGTH = 5_000
const size = fc.integer({ min: 0, max: LENGTH + 1_000 })
const step = fc.oneof(
  fc.record({
    do: fc.constant('write' as const),
    at: size,
    size: fc.integer({ min: 1, max: 999 }),
  }),
  fc.record({ do: fc.constant('cut' as const), at: size }),
)

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-undo-'))
})
afterEach(() => {
  rmSync(dir, { recursive: true, force: true })
})

/** Content that was closed and is changed, each change kept first. */
class Changed {
  readonly path = join(dir, 'content')
  readonly closed = Buffer.from(Array.from({ length: LENGTH }, (_, at) => at % 251))
  readonly undo = new Undo(join(dir, 'undo', 'content'), { length: LENGTH, operations: 7 })
  readonly #fd: number

  constructor() {
    writeFileSync(this.path, this.closed)
    this.#fd = openSync(this.path, 'r+')
  }

  readNow(buffer: Uint8Array, position: number): number {
    return readSync(this.#fd, buffer, 0, buffer.length, position)
  }

  write(at: number, bytes: number): void {
    this.undo.keep(this, at, at + bytes)
    writeSync(this.#fd, Buffer.alloc(bytes, 0xff), 0, bytes, at)
  }

  async cut(length: number): Promise<void> {
    await this.undo.keepFrom(this, length)
    ftruncateSync(this.#fd, length)
  }

  close(): void {
    this.undo.drop()
    closeSync(this.#fd)
  }
}

it('makes content what it was, whatever was written and cut', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 30 }), async (steps) => {
      const content = new Changed()
      for (const each of steps) {
        if (each.do === 'write') content.write(each.at, each.size)
        else await content.cut(each.at)
      }
      expect(await readClosed(content.undo.path)).toEqual({ length: LENGTH, operations: 7 })
      // A kill in between lets it be done again.
      for (let time = 0; time < 2; time += 1) {
        await layOver(content.undo.path, content.path)
        expect(readFileSync(content.path).equals(content.closed)).toBe(true)
      }
      content.close()
    }),
    { numRuns: 100 },
  )
})

it('is used up to the piece that a kill cut', async () => {
  const content = new Changed()
  content.write(100, 50)
  const whole = statSync(content.undo.path).size
  content.undo.keep(content, 1_000, 1_050)
  truncateSync(content.undo.path, statSync(content.undo.path).size - 1)
  await layOver(content.undo.path, content.path)
  expect(readFileSync(content.path).equals(content.closed)).toBe(true)
  truncateSync(content.undo.path, whole)
  appendFileSync(content.undo.path, Buffer.alloc(64))
  await layOver(content.undo.path, content.path)
  expect(readFileSync(content.path).equals(content.closed)).toBe(true)
  content.close()
})

it('says nothing when a kill came before its first bytes', async () => {
  const content = new Changed()
  writeFileSync(join(dir, 'begun'), Buffer.alloc(7))
  expect(await readClosed(join(dir, 'begun'))).toBeUndefined()
  await layOver(join(dir, 'begun'), content.path)
  expect(readFileSync(content.path).equals(content.closed)).toBe(true)
  content.close()
})

it('leaves no file once it is dropped, nor before anything is kept', () => {
  const content = new Changed()
  expect(content.undo.isBegun).toBe(false)
  expect(existsSync(content.undo.path)).toBe(false)
  content.write(0, 1)
  expect(content.undo.isBegun).toBe(true)
  content.close()
  expect(existsSync(content.undo.path)).toBe(false)
})
