import { Readable } from 'node:stream'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { inLocalTime } from '../../../src/cli/log-times.ts'
import { createLogger } from '../../../src/cli/logging.ts'
import { localStamp } from '../../../src/domain/local-stamp.ts'
import { nameItems } from '../../../src/trash/item-names.ts'

const AT = Date.UTC(2026, 6, 1, 22, 30, 5, 123)

beforeEach(() => {
  vi.stubEnv('TZ', 'Asia/Tokyo')
})
afterEach(() => {
  vi.unstubAllEnvs()
})

async function shown(...blocks: readonly (string | Buffer)[]): Promise<Buffer> {
  const parts = []
  const source = Readable.from(blocks.map((block) => Buffer.from(block)))
  for await (const part of inLocalTime(source as AsyncIterable<Buffer>)) parts.push(part)
  return Buffer.concat(parts)
}

test('a time is told as the clock on the wall tells it', () => {
  expect(localStamp(AT)).toBe('2026-07-02 07:30:05')
  const item = { bagId: 'a'.repeat(64), name: 'file', isFolder: false, deletedAtMs: AT }
  expect([...nameItems([item]).keys()]).toEqual(['2026-07-02 07.30.05 file'])
})

test('a log of lines is shown in local time, whatever its blocks are, and all else of it as it is', async () => {
  const log =
    '2026-07-01T22:30:05.123Z info  é 2026-07-01T22:30:05Z\n  at line\n{"time":"2026-07-01T22:30:05.123Z"}\n'
  const local = log.replace('2026-07-01T22:30:05.123Z info', '2026-07-02 07:30:05 info')
  const bytes = Buffer.from(log)
  for (const cut of [1, 10, 24, 25, 33, bytes.length]) {
    const told = await shown(bytes.subarray(0, cut), bytes.subarray(cut))
    expect(told.toString()).toBe(local)
  }
  expect(await shown(Buffer.from([0xc3]))).toEqual(Buffer.from([0xc3]))
})

test('a log that goes to a file has the time of the world, and one that goes to a person the local one', () => {
  const begins = (isFile: boolean): string => {
    const lines: string[] = []
    const write = (text: string): number => lines.push(text)
    createLogger({ level: 'info', json: false, isFile }, { write, secrets: [] }).info({}, 'said')
    return lines.join('').slice(0, lines.join('').indexOf(' info'))
  }
  expect(begins(true)).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  expect(begins(false)).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
})
