import { setImmediate as turn } from 'node:timers/promises'
import { PassThrough, Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { arrivals } from '../../../src/content/arrivals.ts'
import { cutAt, withoutFirst } from '../../../src/content/chunks.ts'

const never = new AbortController().signal

function textOf(chunks: readonly Uint8Array[]): string {
  return Buffer.concat(chunks).toString()
}

describe('What a body brings', () => {
  it('in one turn is given together, and all of it in order', async () => {
    const body = new PassThrough()
    const came: string[] = []
    const reading = (async () => {
      for await (const chunks of arrivals(body, never)) came.push(textOf(chunks))
    })()
    body.write('a')
    body.write('b')
    await expect.poll(() => came.join('')).toBe('ab')
    body.end('c')
    await reading
    expect(came).toEqual(['ab', 'c'])
  })

  it('before a cut is given before the error', async () => {
    const body = new PassThrough()
    const came: string[] = []
    const reading = (async () => {
      for await (const chunks of arrivals(body, never)) came.push(textOf(chunks))
    })()
    body.write('whole')
    await turn()
    body.destroy(new Error('cut'))
    await expect(reading).rejects.toThrow('cut')
    expect(came).toEqual(['whole'])
  })

  it('waits in the body while nothing takes it, but for 2 MiB', async () => {
    const chunk = Buffer.alloc(64 * 1024)
    let made = 0
    const body = new Readable({
      read() {
        made += chunk.length
        this.push(chunk)
      },
    })
    for await (const chunks of arrivals(body, never)) {
      expect(chunks.length).toBeGreaterThan(0)
      for (let i = 0; i < 200; i += 1) await turn()
      break
    }
    expect(made).toBeLessThan(5 * 1024 * 1024)
    expect(body.destroyed).toBe(true)
  })

  it('ends with an error, and the body with it, when it is to stop', async () => {
    const stop = new AbortController()
    const body = new PassThrough()
    const next = arrivals(body, stop.signal).next()
    stop.abort()
    await expect(next).rejects.toThrow()
    expect(body.destroyed).toBe(true)
  })
})

describe('Chunks', () => {
  const chunks = ['abc', 'de', 'f'].map((text) => Buffer.from(text))

  it.each([
    [0, ['', 'abcdef']],
    [2, ['ab', 'cdef']],
    [3, ['abc', 'def']],
    [4, ['abcd', 'ef']],
    [6, ['abcdef']],
    [9, ['abcdef']],
  ])('are cut in two after %i bytes', (bytes, expected) => {
    expect(cutAt(chunks, bytes).map(textOf)).toEqual(expected)
  })

  it('are what is left behind their first bytes', () => {
    expect(textOf(withoutFirst(chunks, 4))).toBe('ef')
    expect(withoutFirst(chunks, 6)).toEqual([])
  })
})
