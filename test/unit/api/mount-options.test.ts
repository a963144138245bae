import { describe, expect, it } from 'vitest'
import type { MountOptions } from '../../../src/api/index.ts'
import { readMountOptions } from '../../../src/api/read-mount-options.ts'

const NEEDED: MountOptions = { url: 'http://a', token: 'token', mountpoint: '/mnt' }

const read = (options: Partial<MountOptions>) => readMountOptions({ ...NEEDED, ...options })

describe('options of a mount within a process', () => {
  it('are those of bagfs mount, as numbers or as a person types them', () => {
    const typed = read({
      ...{ cacheSize: '20GB', minFree: 1_000, timeout: 2_500, listingTtl: '1m', keepDeleted: 0 },
      ...{ writeBack: true, readOnly: false, umask: 0o77, uid: 7, bridge: 'dev-fuse' },
      ...{ description: 'true', stateDir: '/var/state/../lib', metrics: '127.0.0.1:9469' },
    })
    expect(typed).toEqual({
      flags: {
        ...{ cacheSize: 20e9, minFree: 1_000, timeout: 2_500, listingTtl: 60_000, keepDeleted: 0 },
        ...{ writeBack: true, readOnly: false, umask: 0o77, uid: 7, bridge: 'dev-fuse' },
        ...{ description: 'true', stateDir: '/var/state/../lib' },
        metrics: { host: '127.0.0.1', port: 9469, forOthers: false },
      },
      stateDir: '/var/lib',
    })
    expect(read({}).flags).toEqual({})
  })

  it.each<[string, unknown]>([
    ['cacheSize', -1],
    ['timeout', NaN],
    ['timeout', '5'],
    ['umask', 0o1777],
    ['uid', 1.5],
    ['writeBack', 'yes'],
    ['bridge', 'none'],
    ['metrics', '0.0.0.0:9469'],
  ])('%s cannot be %s', (name, value) => {
    const given = { [name]: value } as Partial<MountOptions>
    expect(() => read(given)).toThrow(expect.objectContaining({ code: 'usage' }) as Error)
    expect(() => read(given)).toThrow(new RegExp(`^${name}: `))
  })

  it('of an unknown name are refused', () => {
    const given = { cache_size: 1 } as Partial<MountOptions>
    expect(() => read(given)).toThrow('mount knows no option cache_size.')
  })
})
