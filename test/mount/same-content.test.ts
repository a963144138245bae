import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

const MODES = { through: [], back: ['--write-back'] } as const
const FILES = 8

/** Changes after which the names `$a` and `$b` have the content `$same` again: the service gives its bag the same id. */
const CHANGES = {
  'saved with a backup': 'mv $a $a~; echo $same >$a; rm $a~',
  'saved with a backup by rename': 'mv $a $a~; echo $same >$a.new; mv $a.new $a; rm $a~',
  'swapped with another of that content': 'mv $b $b.z; mv $a $b; mv $b.z $a',
  'removed and written again': 'rm $a; echo $same >$a',
  'moved away and back': 'mv $a $a.c; mv $a.c $a',
  'moved over the other and back': 'mv $b $b~; mv $a $b; mv $b $a; mv $b~ $b',
  'copied over by the other': 'mv $a $a.c; mv $b $a; mv $a.c $b',
} as const
const WAYS = Object.keys(CHANGES).map((way) => way.replaceAll(' ', '-'))

const CASES = Object.entries(MODES).flatMap(([mode, args]) =>
  ['sync', 'kill'].map((end) => ({ mode, args, end })),
)

/** For files by turns, so that of each way some changes are new when the drive is killed. */
function forAll(command: (change: string) => string): string {
  const numbers = Array.from({ length: FILES }, (_, index) => index).join(' ')
  const each = Object.values(CHANGES).map(
    (change, index) => `w=${WAYS[index]}; a=$w-a$i; b=$w-b$i; same=same-$w; ${command(change)}`,
  )
  return `for i in ${numbers}; do ${each.join('; ')}; done`
}

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(() => bench.close())

describe.runIf(canMount())('a file of unchanged content', () => {
  it.each(CASES)('is there whatever came between (mode $mode, then a $end)', async (each) => {
    const { args, end } = each
    let drive = await bench.mount(...args)
    await drive.sh(forAll(() => 'echo $same >$a; echo $same >$b'))
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    const wanted = await bench.service.contents()
    expect(Object.keys(wanted)).toHaveLength(2 * FILES * WAYS.length)
    await drive.sh(forAll((change) => change))
    if (end === 'kill') {
      await drive.kill()
      drive = await bench.mount(...args)
    }
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    const shown = Object.entries(wanted).map(([name, content]) => `${name}:${content}`)
    expect((await drive.sh('grep . *')).split(/(?<=\n)/).sort()).toEqual(shown.sort())
    await drive.leave()
    expect(await bench.service.contents()).toEqual(wanted)
  })
})
