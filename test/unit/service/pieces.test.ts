import { getEventListeners } from 'node:events'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DriveError } from '../../../src/domain/errors.ts'
import { parseContentLength, parseContentRange } from '../../../src/service/answer-head.ts'
import { fileNameOfDisposition } from '../../../src/service/disposition.ts'
import { follow } from '../../../src/service/follow.ts'
import { arrivalMs, refillMs } from '../../../src/service/upload-pace.ts'
import { resolveSettings } from '../../../src/service/settings.ts'
import { Slots } from '../../../src/service/slots.ts'
import { failureOf, TOKEN } from './harness.ts'

describe('the file name of a Content-Disposition', () => {
  it.each([
    ['attachment; filename="a b.txt"', 'a b.txt'],
    ["attachment; filename=x; filename*=UTF-8''%e2%82%ac.txt", '€.txt'],
    ['attachment; filename="../../etc/passwd"', 'passwd'],
    ['attachment; filename="C:\\\\dir\\\\f.txt"', 'f.txt'],
    [`attachment; filename="${Buffer.from('Übung.pdf').toString('latin1')}"`, 'Übung.pdf'],
    ['attachment; filename="caf\xe9"', 'café'],
    ['attachment', undefined],
    ['attachment; filename="dir/"', undefined],
    [undefined, undefined],
  ])('of %j is %j', (header, name) => {
    expect(fileNameOfDisposition(header)).toBe(name)
  })

  it('has no slash and never throws', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (header) => {
        expect(fileNameOfDisposition(header) ?? '').not.toContain('/')
      }),
    )
  })
})

describe('lengths and ranges in a head', () => {
  it('reads a range with an exclusive end', () => {
    expect(parseContentRange('bytes 5-9/20')).toEqual({ start: 5, end: 10, total: 20 })
    expect(parseContentRange('bytes 5-9/*')).toEqual({ start: 5, end: 10, total: undefined })
  })

  it.each(['bytes 9-5/20', 'bytes 5-20/20', 'bytes */20', 'items 0-1/2', '', undefined])(
    'takes %j for no range',
    (value) => {
      expect(parseContentRange(value)).toBeUndefined()
    },
  )

  it('takes only whole numbers for a length', () => {
    expect(parseContentLength('12')).toBe(12)
    for (const value of ['-1', '1.5', '', 'x', '9'.repeat(30)]) {
      expect(parseContentLength(value)).toBeUndefined()
    }
  })
})

describe('settings', () => {
  const usable = { baseUrl: 'https://host:8443/some/path/', token: TOKEN }

  it('split the URL into origin and prefix', () => {
    expect(resolveSettings(usable)).toMatchObject({
      origin: 'https://host:8443',
      prefix: '/some/path',
      maxUploads: 4,
      maxDownloads: 8,
      maxConnections: 16,
    })
  })

  it.each([
    { baseUrl: 'host' },
    { baseUrl: 'ftp://host' },
    { baseUrl: 'https://me:pw@host' },
    { baseUrl: 'https://host?x=1' },
    { token: ' \n' },
    { token: 'two words' },
    { token: 'bad\u0000' },
    { retries: -1 },
    { stallTimeoutMs: 0 },
    { maxUploads: Number.NaN },
    { maxUploads: 8, maxDownloads: 8 },
  ])('refuse %j', (over) => {
    expect(() => resolveSettings({ ...usable, ...over })).toThrow(DriveError)
  })

  it('drop the newline at the end of a token file and never show the token', () => {
    expect(resolveSettings({ ...usable, token: `${TOKEN}\n` }).token).toBe(TOKEN)
    expect(() => resolveSettings({ ...usable, token: 'secret words' })).not.toThrow(/secret/)
  })
})

describe('slots', () => {
  const signal = new AbortController().signal

  it('are given out in order, and never more than there are', async () => {
    const slots = new Slots(1)
    const order: number[] = []
    const release = await slots.take(signal)
    const others = [1, 2].map(async (n) => {
      const free = await slots.take(signal)
      order.push(n)
      free()
    })
    await Promise.resolve()
    expect(order).toEqual([])
    release()
    release()
    await Promise.all(others)
    expect(order).toEqual([1, 2])
    await slots.take(signal)
    const controller = new AbortController()
    const fourth = slots.take(controller.signal)
    const reason = new DriveError('interrupted', 'x')
    controller.abort(reason)
    expect(await failureOf(fourth)).toBe(reason)
  })

  it('skip one who gave up', async () => {
    const slots = new Slots(1)
    const release = await slots.take(signal)
    const controller = new AbortController()
    const gone = slots.take(controller.signal)
    const next = slots.take(signal)
    controller.abort(new DriveError('interrupted', 'x'))
    await failureOf(gone)
    release()
    await next
  })
})

describe('following signals', () => {
  it('leaves no listener behind on those that live on', () => {
    const [caller, closing] = [new AbortController(), new AbortController()]
    const followed = follow(caller.signal, closing.signal)
    followed.dispose()
    expect(getEventListeners(caller.signal, 'abort')).toEqual([])
    expect(getEventListeners(closing.signal, 'abort')).toEqual([])
    caller.abort()
    expect(followed.signal.aborted).toBe(false)
  })
})

describe('the pace of an upload', () => {
  const MiB = 1024 * 1024

  it('says how long the kernel may take nothing, up to a limit', () => {
    expect(refillMs(10_000, 0, 5000)).toBe(0)
    expect(refillMs(10_000, 20 * MiB, 5000)).toBe(1000)
    expect(refillMs(10_000, 1 * MiB, 5000)).toBe(5000)
  })

  it('says how long the rest may be on its way, at most as long as all took', () => {
    expect(arrivalMs(10_000, 88 * MiB)).toBe(1000)
    expect(arrivalMs(10_000, 1000)).toBe(10_000)
    expect(arrivalMs(-5, 1000)).toBe(0)
  })
})
