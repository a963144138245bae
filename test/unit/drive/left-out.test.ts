import { describe, expect, it } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { LeftOut } from '../../../src/drive/folders/left-out.ts'

describe('what folders were stored without', () => {
  it('is told once each in the log, all of it, and the last of it in status', () => {
    const log: string[] = []
    const warn = (_: unknown, message: string): number => log.push(message)
    const leftOut = new LeftOut({ log: { ...silentLogger, warn } })
    const files = Array.from({ length: 150 }, (_, index) => ({ folder: 'f', path: `x${index}` }))
    leftOut.note(files)
    leftOut.note(files)
    expect(log).toHaveLength(150)
    expect(leftOut.list()).toEqual(files.slice(50))
  })
})
