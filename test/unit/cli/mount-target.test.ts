import { homedir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseTarget } from '../../../src/cli/mount-target.ts'

describe('PROFILE:DIRECTORY', () => {
  it('is a profile and a directory; a colon in a path is none', () => {
    expect(parseTarget('work:drive')).toEqual({ profile: 'work', mountpoint: 'drive' })
    expect(parseTarget('./work:drive')).toEqual({ mountpoint: './work:drive' })
    expect(() => parseTarget('work:')).toThrow('names a profile and no directory')
  })

  it('has the home where a shell leaves a tilde', () => {
    expect(parseTarget('work:~/drive').mountpoint).toBe(join(homedir(), 'drive'))
    expect(parseTarget('work:~').mountpoint).toBe(homedir())
    expect(parseTarget('work:./~/drive').mountpoint).toBe('./~/drive')
  })
})
