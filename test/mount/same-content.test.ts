import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

const MODES = { through: [], back: ['--write-back'] } as const
const FILES = 8

/** Changes after which a name has the content again that it had: the service gives its bag the same id. */
const CHANGES = {
  'saved with a backup': 'mv a$i a$i~; echo same >a$i; rm a$i~',
  'saved with a backup by rename': 'mv a$i a$i~; echo same >a$i.new; mv a$i.new a$i; rm a$i~',
  'swapped with another of that content': 'mv b$i zz$i; mv a$i b$i; mv zz$i a$i',
  'removed and written again': 'rm a$i; echo same >a$i',
  'moved away and back': 'mv a$i c$i; mv c$i a$i',
  'moved over the other and back': 'mv b$i z$i~; mv a$i b$i; mv b$i a$i; mv z$i~ b$i',
  'copied over by the other': 'mv a$i c$i; mv b$i a$i; mv c$i b$i',
} as const

const CASES = Object.entries(MODES).flatMap(([mode, args]) =>
  Object.entries(CHANGES).flatMap(([way, change]) =>
    [false, true].map((isKilled) => ({ mode, args, way, change, end: isKilled ? 'kill' : 'sync' })),
  ),
)

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(() => bench.close())

describe.runIf(canMount())('a file of unchanged content', () => {
  it.each(CASES)('is there when it was $way (mode $mode, then a $end)', async (each) => {
    const { args, change, end } = each
    const numbers = Array.from({ length: FILES }, (_, index) => index)
    let drive = await bench.mount(...args)
    await drive.sh(`for i in ${numbers.join(' ')}; do echo same >a$i; echo same >b$i; done`)
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    await drive.sh(`for i in ${numbers.join(' ')}; do ${change}; done`)
    if (end === 'kill') {
      await drive.kill()
      drive = await bench.mount(...args)
    }
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    const names = ['a', 'b'].flatMap((letter) => numbers.map((number) => `${letter}${number}`))
    const wanted = Object.fromEntries(names.map((name) => [name, 'same\n']))
    expect(await drive.sh('grep . *')).toBe(names.map((name) => `${name}:same\n`).join(''))
    await drive.leave()
    expect(await bench.service.contents()).toEqual(wanted)
  })
})
