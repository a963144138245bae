import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readErrorBody } from '../../../src/service/error-body.ts'
import { codeOfStatus, mayHaveBeenDone } from '../../../src/service/statuses.ts'

describe('the body of a failed answer', () => {
  it('names the fields of a list of problems, with integers in loc', () => {
    const body = {
      detail: [
        { loc: ['body', 'description'], msg: 'field required', type: 'validation_error' },
        { loc: ['file', 0], msg: 'too small', type: 'validation_error' },
        { loc: ['body'], msg: 'odd', type: 'x' },
      ],
    }
    expect(readErrorBody(JSON.stringify(body))).toEqual({
      words: 'description: field required; file.0: too small; odd',
      fields: ['description', 'file.0'],
      isPage: false,
    })
  })

  it('takes a plain detail, other JSON, text, and nothing', () => {
    expect(readErrorBody('{"detail":"Not enough space"}').words).toBe('Not enough space')
    expect(readErrorBody('{"error":"x"}').words).toBe('{"error":"x"}')
    expect(readErrorBody(' upstream\n gone ').words).toBe('upstream gone')
    expect(readErrorBody('')).toEqual({ words: '', fields: [], isPage: false })
  })

  it('makes a short text of a web page', () => {
    const page = '<html><head><title>502 Bad Gateway</title></head><body>x</body></html>'
    expect(readErrorBody(page)).toEqual({ words: '502 Bad Gateway', fields: [], isPage: true })
    const bare = '<h1>Oops</h1><script>evil()</script><p>Try later</p>'
    expect(readErrorBody(bare).words).toBe('Oops Try later')
  })

  it('is read whatever is repeated in it, without holding anybody up', () => {
    const startedAt = performance.now()
    const nested = `${'['.repeat(30_000)}${']'.repeat(30_000)}`
    for (const text of [nested, `{"detail":${nested}}`, `{"a":${nested}}`]) {
      expect(readErrorBody(text)).toMatchObject({ fields: [], isPage: false })
    }
    for (const part of [
      '<title',
      '<title>',
      '<title><',
      '<script',
      '<script></',
      '<style></style ',
    ]) {
      expect(readErrorBody(part.repeat(64 * 1024))).toMatchObject({ fields: [], isPage: true })
    }
    // What looks for each beginning of a title to the end of the text takes minutes.
    expect(performance.now() - startedAt).toBeLessThan(60_000)
  })

  it('is one bounded line without control characters, whatever comes', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 2000, unit: 'binary' }), (text) => {
        for (const body of [text, JSON.stringify({ detail: text })]) {
          const { words } = readErrorBody(body)
          expect(words.length).toBeLessThanOrEqual(301)
          expect(words).not.toMatch(/\p{Cc}/u)
        }
      }),
    )
  })
})

describe('a status', () => {
  it.each([
    [400, 'bad-request'],
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'gone'],
    [408, 'timed-out'],
    [413, 'too-large'],
    [418, 'bad-request'],
    [422, 'rejected'],
    [429, 'rate-limited'],
    [500, 'server-error'],
    [501, 'server-error'],
    [502, 'unavailable'],
    [503, 'unavailable'],
    [504, 'unavailable'],
    [507, 'no-space'],
    [522, 'unavailable'],
    [304, 'bad-answer'],
  ] as const)('%i is %s', (status, code) => {
    expect(codeOfStatus(status)).toBe(code)
  })

  it('leaves in doubt whether the work was done only where it is in doubt', () => {
    expect([500, 502, 504, 524].every(mayHaveBeenDone)).toBe(true)
    expect([400, 408, 422, 429, 501, 503, 507].some(mayHaveBeenDone)).toBe(false)
  })
})
