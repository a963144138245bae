import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ifThere, isThere, readJsonIfThere } from '../../../src/disk/if-there.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-there-'))
})
afterEach(() => {
  rmSync(dir, { recursive: true })
})

describe('what may not be there', () => {
  it('is undefined when it is not', async () => {
    const path = join(dir, 'none')
    expect(await ifThere(readFile(path))).toBeUndefined()
    expect(await isThere(path)).toBe(false)
    expect(await readJsonIfThere(path)).toBeUndefined()
  })

  it('is itself when it is', async () => {
    const path = join(dir, 'file')
    writeFileSync(path, '{"a":1}')
    expect(await ifThere(readFile(path, 'utf8'))).toBe('{"a":1}')
    expect(await isThere(path)).toBe(true)
    expect(await readJsonIfThere(path)).toEqual({ a: 1 })
    writeFileSync(path, '{"a":')
    expect(await readJsonIfThere(path)).toBeUndefined()
  })

  it('rejects with every other error, as one of ours where that has words', async () => {
    await expect(ifThere(readFile(dir))).rejects.toMatchObject({ code: 'EISDIR' })
    await expect(readJsonIfThere(dir, 'Reading it')).rejects.toMatchObject({
      name: 'DriveError',
      message: expect.stringContaining('Reading it') as string,
    })
  })
})
