import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { GroupSync } from '../../../src/disk/group-sync.ts'
import { systemClock, type Clock } from '../../../src/domain/clock.ts'
import { deferred } from '../../../src/domain/deferred.ts'
import { silentLogger } from '../../../src/domain/logger.ts'

let dir: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-group-'))
})
afterEach(() => {
  rmSync(dir, { recursive: true, force: true })
})

/** More than are synced one by one. */
const MANY = Array.from({ length: 40 }, (_, at) => String(at))

/** A group whose rounds end, or fail, when the test says so; its time passes by `pass`. */
function open() {
  const rounds: ReturnType<typeof deferred<boolean>>[] = []
  const timers = new Set<() => void>()
  const clock: Clock = {
    ...systemClock,
    after: (_ms, task) => {
      timers.add(task)
      return () => timers.delete(task)
    },
  }
  const syncFileSystem = (): Promise<boolean> => {
    const round = deferred<boolean>()
    rounds.push(round)
    return round.promise
  }
  const group = new GroupSync({ clock, log: silentLogger, syncFileSystem }, dir)
  const pass = (): void => {
    for (const task of [...timers]) {
      timers.delete(task)
      task()
    }
  }
  const begun = (count: number) => expect.poll(() => rounds.length).toBe(count)
  return { group, rounds, pass, begun, timers }
}

describe('what is to be on the platter', () => {
  it('is a second later, by one sync of all that was written meanwhile', async () => {
    const { group, rounds, pass, begun, timers } = open()
    const first = group.note(MANY)
    const passed = group.passed()
    group.note(['more'])
    expect(timers.size).toBe(1)
    pass()
    await begun(1)
    expect(group.isDone(first)).toBe(false)
    rounds[0]?.resolve(true)
    await passed
    expect(group.isDone(first)).toBe(true)
    await group.complete()
    expect(rounds).toHaveLength(1)
  })

  it('is at once for those that ask, however many they are, and is not what comes while it is synced', async () => {
    const { group, rounds, begun } = open()
    group.note(MANY)
    const asked = [group.complete(), group.complete()]
    await begun(1)
    const later = group.note(MANY)
    const again = group.complete()
    rounds[0]?.resolve(true)
    await Promise.all(asked)
    expect(group.isDone(later)).toBe(false)
    await begun(2)
    rounds[1]?.resolve(true)
    await again
    expect(group.isDone(later)).toBe(true)
  })

  it('is told to be not when the disk refuses, and tried again', async () => {
    const { group, rounds, pass, begun } = open()
    const noted = group.note(MANY)
    const asked = group.complete()
    const passed = group.passed()
    await begun(1)
    rounds[0]?.reject(new Error('EIO'))
    await expect(asked).rejects.toThrow('EIO')
    expect(group.isDone(noted)).toBe(false)
    pass()
    await begun(2)
    rounds[1]?.resolve(true)
    await passed
    expect(group.isDone(noted)).toBe(true)
  })

  it('is waited for no longer than the waiting is of use', async () => {
    const { group } = open()
    group.note(MANY)
    const stop = new AbortController()
    const passed = group.passed(stop.signal)
    stop.abort()
    await expect(passed).rejects.toMatchObject({ code: 'interrupted' })
  })

  it('is synced at once while something waits for all of it', async () => {
    const { group, rounds, begun } = open()
    group.note(MANY)
    const end = group.hurry()
    await begun(1)
    rounds[0]?.resolve(true)
    group.note(MANY)
    await begun(2)
    rounds[1]?.resolve(true)
    end()
    await group.complete()
    group.note(MANY)
    expect(rounds).toHaveLength(2)
  })

  it('is synced one by one where it is little, or the machine can do no other, and what is gone does not matter', async () => {
    const { group, rounds } = open()
    const path = join(dir, 'file')
    writeFileSync(path, 'content')
    const noted = group.note([path, join(dir, 'gone'), dir])
    await group.complete()
    expect(group.isDone(noted)).toBe(true)
    expect(rounds).toHaveLength(0)
    const without = new GroupSync({ clock: systemClock, log: silentLogger }, dir)
    const many = without.note([...MANY.map((name) => join(dir, name)), path])
    await without.close()
    expect(without.isDone(many)).toBe(true)
  })

  it('is nothing to wait for where no content was promised since', async () => {
    const { group, rounds, begun } = open()
    group.note(MANY)
    await group.completeGiven()
    expect(rounds).toHaveLength(0)
    group.note(MANY, { isGiven: true })
    const asked = group.completeGiven()
    await begun(1)
    rounds[0]?.resolve(true)
    await asked
  })
})
