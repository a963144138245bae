import { spawnSync } from 'node:child_process'
import { chownSync, existsSync, readdirSync } from 'node:fs'
import { link, mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { clearDead } from '../../../src/cli/dead-drives.ts'
import { acquireLock } from '../../../src/state/lock.ts'
import { OTHER_UID } from '../../support/other-user.ts'

let stateDir: string
let socketPath: string
beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'bagfs-dead-'))
  socketPath = join(stateDir, 'control.sock')
  await (await acquireLock(stateDir)).release()
})
afterEach(() => rm(stateDir, { recursive: true }))

async function listen(path: string): Promise<Server> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(path, resolve))
  return server
}

/** As a process leaves it that was killed: Node takes away only the name that it was given. */
async function leaveSocket(): Promise<void> {
  const first = join(stateDir, 'first.sock')
  const server = await listen(first)
  await link(first, socketPath)
  await new Promise((resolve) => server.close(resolve))
}

/** The process of the drive has ended, unless it is another one. */
async function clear(pid = spawnSync('true').pid): Promise<boolean> {
  return clearDead({ mountpoint: '/drive', stateDir, socketPath, pid }, { record: false })
}

describe('the socket of a dead drive', () => {
  it('is taken away', async () => {
    await leaveSocket()
    expect(await clear()).toBe(true)
    expect(existsSync(socketPath)).toBe(false)
  })

  it('stays while a process holds the state directory, as one does that is just starting', async () => {
    await leaveSocket()
    const lock = await acquireLock(stateDir)
    onTestFinished(() => lock.release())
    expect(await clear()).toBe(false)
    expect(existsSync(socketPath)).toBe(true)
  })

  it('stays while the process runs', async () => {
    await leaveSocket()
    expect(await clear(process.pid)).toBe(false)
    expect(existsSync(socketPath)).toBe(true)
  })

  it.runIf(process.getuid?.() === 0)(
    'stays where another user has the state directory',
    async () => {
      await leaveSocket()
      chownSync(stateDir, OTHER_UID, OTHER_UID)
      const before = readdirSync(stateDir, { recursive: true })
      expect(await clear()).toBe(false)
      expect(readdirSync(stateDir, { recursive: true })).toEqual(before)
    },
  )

  it('stays while a program listens there', async () => {
    const server = await listen(socketPath)
    onTestFinished(() => void server.close())
    expect(await clear()).toBe(false)
    expect(existsSync(socketPath)).toBe(true)
  })
})
