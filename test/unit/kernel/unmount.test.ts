import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { unmountPath } from '../../../src/kernel/unmount.ts'

/** Where a file system of the machine is mounted. */
const MOUNTED = '/proc'

let dir: string
let path: string | undefined
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-unmount-'))
  path = process.env['PATH']
  process.env['PATH'] = [dir, path].join(delimiter)
})
afterEach(() => {
  process.env['PATH'] = path
  rmSync(dir, { recursive: true, force: true })
})

/** Puts a program in the place of fusermount that says `words` and fails, `times` times. */
function fusermount(words: string, times: number): void {
  const tries = join(dir, 'tries')
  writeFileSync(tries, '')
  const lines = [
    '#!/bin/sh',
    `echo "$*" >> ${tries}`,
    `[ "$(wc -l < ${tries})" -gt ${times} ] && exit 0`,
    `echo "${words}" >&2`,
    'exit 1',
  ]
  const program = join(dir, 'fusermount')
  writeFileSync(program, lines.join('\n'))
  chmodSync(program, 0o755)
}

const tried = (): string[] => readFileSync(join(dir, 'tries'), 'utf8').trim().split('\n')

describe('unmounting a path', () => {
  it('is tried again while a program uses it for a moment', async () => {
    fusermount('fusermount: failed to unmount /proc: Device or resource busy', 3)
    await unmountPath(MOUNTED, { lazy: false })
    expect(tried()).toEqual(Array.from({ length: 4 }, () => '-u -- /proc'))
  })

  it('is refused when a program goes on using it', async () => {
    fusermount('fusermount: failed to unmount /proc: Device or resource busy', 1_000)
    await expect(unmountPath(MOUNTED, { lazy: false })).rejects.toMatchObject({
      code: 'busy',
      message: '/proc is in use by a program.',
    })
  })

  it('tells the words of the program when it is refused for another reason, and asks once', async () => {
    fusermount('fusermount: the moon is full', 1_000)
    await expect(unmountPath(MOUNTED, { lazy: false })).rejects.toMatchObject({
      code: 'busy',
      message: '/proc stays mounted: fusermount: the moon is full',
    })
    expect(tried()).toHaveLength(1)
  })

  it('is done when another program has unmounted it meanwhile', async () => {
    fusermount(`fusermount: entry for ${dir} not found in /etc/mtab`, 1_000)
    await unmountPath(dir, { lazy: false })
    expect(tried()).toHaveLength(1)
  })
})
