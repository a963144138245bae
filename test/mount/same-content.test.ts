import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

const FILES = 2

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

/** In both modes, and without a kill, in unit/drive/same-content. */
describe.runIf(canMount())('a file of unchanged content', () => {
  it('is there whatever came between, after a kill', async () => {
    const killed = await bench.mount('--write-back')
    await killed.sh(forAll(() => 'echo $same >$a; echo $same >$b'))
    expect((await bench.bagfs(['sync', killed.path])).code).toBe(0)
    const wanted = await bench.service.contents()
    expect(Object.keys(wanted)).toHaveLength(2 * FILES * WAYS.length)
    await killed.sh(forAll((change) => change))
    await killed.kill()
    const drive = await bench.mount('--write-back')
    expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
    const shown = Object.entries(wanted).map(([name, content]) => `${name}:${content}`)
    expect((await drive.sh('grep . *')).split(/(?<=\n)/).sort()).toEqual(shown.sort())
    await drive.leave()
    expect(await bench.service.contents()).toEqual(wanted)
  })
})
