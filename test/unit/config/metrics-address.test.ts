import { expect, test } from 'vitest'
import { parseMetricsAddress } from '../../../src/config/metrics-address.ts'

test.each([
  ['127.0.0.1:9469', { host: '127.0.0.1', port: 9469, forOthers: false }],
  ['127.1.2.3:0', { host: '127.1.2.3', port: 0, forOthers: false }],
  ['localhost:80', { host: '127.0.0.1', port: 80, forOthers: false }],
  ['[::1]:65535', { host: '::1', port: 65_535, forOthers: false }],
  ['127.0.0.1:9469,for-others', { host: '127.0.0.1', port: 9469, forOthers: true }],
  ['0.0.0.0:9469,for-others', { host: '0.0.0.0', port: 9469, forOthers: true }],
  ['[::]:9469,for-others', { host: '::', port: 9469, forOthers: true }],
])('%s is an address', (text, address) => {
  expect(parseMetricsAddress(text)).toEqual(address)
})

test.each(['0.0.0.0:9469', '[::]:9469', '192.168.1.2:9469', '[::ffff:127.0.0.1]:1'])(
  '%s is refused as long as nothing says that others may read the figures',
  (text) => {
    expect(() => parseMetricsAddress(text)).toThrow(
      expect.objectContaining({
        code: 'usage',
        facts: { hint: expect.stringContaining(`${text},for-others`) as unknown },
      }),
    )
  },
)

test.each([
  '',
  '9469',
  ':9469',
  '127.0.0.1',
  '127.0.0.1:',
  '127.0.0.1:70000',
  'example.org:9469',
  '127.1:9469',
  '127.0.0.1:9469,others',
  '127.0.0.1:9469 ',
  '127.0.0.1:-1',
  '[127.0.0.1:1',
])('%j is none', (text) => {
  expect(() => parseMetricsAddress(text)).toThrow(expect.objectContaining({ code: 'usage' }))
})
