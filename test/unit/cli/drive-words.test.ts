import { describe, expect, it } from 'vitest'
import { driveWord, readWords } from '../../../src/cli/drive-words.ts'

const read = (...words: readonly string[]) =>
  readWords(words, {
    verbs: ['list', 'restore', 'empty'],
    flags: {},
    profiles: new Set(['work']),
  })

describe('the words after bagfs trash', () => {
  it.each([
    [['./drive'], 'list', './drive', []],
    [['restore', '~/drive', 'a.txt'], 'restore', '~/drive', ['a.txt']],
    [['work'], 'list', 'work', []],
    [['list', 'work', 'a.txt'], 'list', 'work', ['a.txt']],
    [['work:'], 'list', 'work:', []],
    [['restore', 'work:', 'a.txt'], 'restore', 'work:', ['a.txt']],
    [['empty', 'work:~/drive'], 'empty', 'work:~/drive', []],
    [['restore', 'other:', 'a.txt'], 'restore', undefined, ['other:', 'a.txt']],
  ])('%j name a drive by its path or its profile', (words, verb, mountpoint, names) => {
    const places = mountpoint === undefined ? {} : { mountpoint }
    expect(read(...words)).toEqual({ verb, names, places })
  })

  it('never take a name for a drive where something goes for good', () => {
    expect(read('empty', 'work')).toEqual({ verb: 'empty', names: ['work'], places: {} })
  })

  it('are refused when they are neither', () => {
    expect(() => read('wrok')).toThrow('"wrok" is none of list, restore, empty.')
    expect(() => read('work', './drive')).toThrow('do not go together')
  })
})

describe('a hint', () => {
  it('names the drive as flags or words did', () => {
    expect(driveWord({})).toBe('')
    expect(driveWord({ mountpoint: 'work:' })).toBe(' work:')
    expect(driveWord({ mountpoint: '/my drive' })).toBe(" '/my drive'")
    expect(driveWord({ mountpoint: 'drive' })).toBe(' --mountpoint drive')
  })
})
