import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

const LINES = 30

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  await bench.close()
})

describe.runIf(canMount())('one file of the root that two programs append to', () => {
  it.each([[[]], [['--write-back']]])(
    'with an open for each line has every line (%j)',
    async (args) => {
      const drive = await bench.mount(...args)
      const append = `for i in $(seq ${LINES}); do echo $w$i >>log || echo failed; done`
      const said = await drive.sh(`for w in A B; do (${append})& done; wait`, { timeoutMs: 50_000 })
      expect(said).toBe('')
      expect((await bench.bagfs(['sync', drive.path])).code).toBe(0)
      const stored = (await bench.service.contentOf('log')).toString().trim().split('\n')
      for (const program of ['A', 'B']) {
        const own = stored.filter((line) => line.startsWith(program))
        expect(own).toEqual(Array.from({ length: LINES }, (_, i) => `${program}${i + 1}`))
      }
      expect(await drive.sh('cat log')).toBe(`${stored.join('\n')}\n`)
    },
  )
})
