import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const PAGE = 'docs/tour.md'
const DIRECTORY = 'pictures'
const MOST_BYTES = 100_000
const FEWEST_WORDS = 8

interface Shown {
  readonly told: string
  readonly path: string
}

const shown: readonly Shown[] = Array.from(
  readFileSync(PAGE, 'utf8').matchAll(/!\[(.*)\]\((.*)\)/g),
  ([, told = '', path = '']) => ({ told, path }),
)

describe('the pictures of the tour', () => {
  it('are those that there are, each told in words', () => {
    const made = readdirSync(join('docs', DIRECTORY)).map((name) => `${DIRECTORY}/${name}`)
    expect(shown.map(({ path }) => path).sort()).toEqual(made.sort())
    for (const { told } of shown) {
      expect(told.split(' ').length).toBeGreaterThanOrEqual(FEWEST_WORDS)
    }
  })

  it('are small', () => {
    for (const { path } of shown) {
      expect(statSync(join('docs', path)).size).toBeLessThan(MOST_BYTES)
    }
  })
})
