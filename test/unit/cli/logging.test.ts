import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { createLogger, createStderrLogger } from '../../../src/cli/logging.ts'
import type { LogSettings } from '../../../src/cli/logging.ts'
import { Output } from '../../../src/cli/output.ts'
import { DriveError } from '../../../src/domain/errors.ts'

const SECRET = 'a-very-secret-token'

function logged(
  settings: LogSettings,
  secrets: Iterable<string> = [SECRET],
): { lines: string[]; log: ReturnType<typeof createLogger> } {
  const lines: string[] = []
  const write = (text: string): void => {
    lines.push(text)
  }
  return { lines, log: createLogger(settings, { write, secrets }) }
}

test.each([true, false])('the token shows in no field, message or stack (json: %s)', (json) => {
  const { lines, log } = logged({ level: 'debug', json })
  log.debug({ token: SECRET, headers: { authorization: `Bearer ${SECRET}` } }, 'sent')
  log.info({ settings: { token: SECRET }, url: `http://x/?t=${SECRET}` }, `with ${SECRET}`)
  log.error({ error: new Error(`failed for ${SECRET}`) }, 'failed')
  expect(lines).toHaveLength(3)
  expect(lines.join('')).not.toContain(SECRET)
})

test('a token that comes while the log runs shows no more than the first', () => {
  const secrets = new Set([SECRET])
  const { lines, log } = logged({ level: 'info', json: true }, secrets)
  secrets.add('the-token-after-it')
  log.info({ url: `http://x/?t=the-token-after-it` }, `with the-token-after-it, not ${SECRET}`)
  expect(lines.join('')).toContain('with [hidden], not [hidden]')
  expect(lines.join('')).not.toContain('the-token-after-it')
})

test('fields that carry tokens are hidden by their names, whatever they hold', () => {
  const { lines, log } = logged({ level: 'info', json: true })
  log.info({ token: 'another', nested: { token: 'another', 'x-authorization': 'another' } }, 'x')
  expect(lines.join('')).not.toContain('another')
})

test('a line for people is one line with time, level, message and fields', () => {
  const { lines, log } = logged({ level: 'info', json: false })
  log.warn({ bagId: 'ab12', name: 'two words\n\u001b[31m' }, 'The listing is old.')
  expect(lines).toHaveLength(1)
  expect(lines[0]).toMatch(
    /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d warn {2}The listing is old\. bagId=ab12 name="two words\\n\\u001b\[31m"\n$/,
  )
})

test('each line for the journal begins with its priority', () => {
  for (const json of [true, false]) {
    const lines: string[] = []
    const stderr = new Writable({
      write: (chunk, _encoding, done) => {
        lines.push(String(chunk))
        done()
      },
    })
    const output = new Output({ stdout: stderr, stderr }, { isInJournal: true })
    const log = createStderrLogger(output, [], { level: 'debug', json })
    log.debug({}, 'a')
    log.info({}, 'b')
    log.warn({}, 'c')
    log.error({ error: new Error('with a stack') }, 'd')
    const all = lines.join('').trimEnd().split('\n')
    expect(all.slice(0, 3).map((line) => line.slice(0, 3))).toEqual(['<7>', '<6>', '<4>'])
    expect(all.slice(3).every((line) => line.startsWith('<3>'))).toBe(true)
    expect(all.length > 4).toBe(!json)
  }
})

test('lines below the level are left out', () => {
  const { lines, log } = logged({ level: 'warn', json: false })
  log.info({}, 'quiet')
  log.error({}, 'loud')
  expect(lines).toEqual([expect.stringContaining('loud')])
})

test('an error that nothing foresaw shows with its stack on indented lines', () => {
  const { lines, log } = logged({ level: 'info', json: false })
  log.error({ error: new TypeError('No such property.') }, 'Failed.')
  const [first, ...rest] = lines.join('').trimEnd().split('\n')
  expect(first).toContain('No such property.')
  expect(rest.length).toBeGreaterThan(1)
  expect(rest.filter((line) => !line.startsWith('  '))).toEqual([])
})

test.each(['error', 'err'])(
  'an error of the drive shows in one line with its causes (%s)',
  (field) => {
    const { lines, log } = logged({ level: 'info', json: false })
    const cause = new Error('Connection refused.')
    log.error({ [field]: new DriveError('timed-out', 'No answer.', { cause }) }, 'Failed.')
    expect(lines.join('')).toContain(`Failed. ${field}="No answer: Connection refused."\n`)
  },
)
