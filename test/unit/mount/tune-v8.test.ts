import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { V8_FLAGS } from '../../../src/mount/tune-v8.ts'

/** Fills the young generation again and again, and tells its size in bytes. */
const FILL = `
const kept = []
for (let at = 0; at < 1e7; at += 1) {
  kept.push({ at })
  if (kept.length > 1e5) kept.length = 0
}
const spaces = require('node:v8').getHeapSpaceStatistics()
console.log(spaces.find(({ space_name: name }) => name === 'new_space').space_size)
`

function youngBytes(flags: readonly string[]): number {
  const tune = flags.map((flag) => `require('node:v8').setFlagsFromString('${flag}')\n`).join('')
  return Number(execFileSync(process.execPath, ['-e', tune + FILL], { encoding: 'utf8' }))
}

it('the young generation of a drive stays as small as it begins', () => {
  expect(youngBytes([])).toBeGreaterThan(8e6)
  expect(youngBytes(V8_FLAGS)).toBeLessThan(4e6)
})
