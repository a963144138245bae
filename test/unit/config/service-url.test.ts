import { expect, test } from 'vitest'
import { isLoopback, isUnencrypted, parseServiceUrl } from '../../../src/config/service-url.ts'

test.each([
  ['https://example.org', 'https://example.org'],
  ['https://example.org/', 'https://example.org'],
  ['http://127.0.0.1:8080/files//', 'http://127.0.0.1:8080/files'],
  ['HTTPS://Example.ORG', 'https://example.org'],
])('takes %s for %s', (text, url) => {
  expect(parseServiceUrl(text)).toBe(url)
})

test.each(['', 'example.org', 'localhost:8080', 'ftp://example.org', 'file:///etc/passwd'])(
  'refuses %j, which is not a web address',
  (text) => {
    expect(() => parseServiceUrl(text)).toThrow(expect.objectContaining({ code: 'usage' }))
  },
)

test.each([
  'https://me:secret@example.org',
  'https://example.org/?token=secret',
  'https://x/#secret',
  'secret@example.org',
  'htps://secret@example.org',
  'https://sec/secret@example.org',
  'secret-0123456789',
])('refuses what may hold a secret in %s and does not repeat it', (text) => {
  expect(() => parseServiceUrl(text)).toThrow(expect.objectContaining({ code: 'usage' }))
  expect(() => parseServiceUrl(text)).not.toThrow('secret')
})

test('only plain http to another machine is unencrypted', () => {
  expect(isUnencrypted('http://example.org')).toBe(true)
  expect(isUnencrypted('https://example.org')).toBe(false)
  expect(isUnencrypted('http://127.0.0.1:80')).toBe(false)
  expect(isUnencrypted('http://[::1]:80')).toBe(false)
})

test.each(['0.0.0.0', '::', '192.168.0.1', '127.evil.example', 'example.org'])(
  '%s is not this machine alone',
  (host) => {
    expect(isLoopback(host)).toBe(false)
  },
)
