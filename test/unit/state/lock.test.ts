import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { link, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { acquireLock } from '../../../src/state/lock.ts'
import { compileState } from './compiled.ts'
import { useTempDir } from './temp-dir.ts'

/** Takes the lock of argv[2] once told to, says how that went, and holds it until it is told again. */
const HOLDER = `
import { createInterface } from 'node:readline'
import { acquireLock } from './state/lock.js'
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
console.log('ready')
await lines.next()
try {
  const lock = await acquireLock(process.argv[2])
  console.log('held')
  await lines.next()
  await lock.release()
} catch (error) {
  console.log(error.code + ' ' + error.message)
}
process.exit()
`

const dir = useTempDir()
let program: string
const children: ChildProcess[] = []

beforeAll(async () => {
  program = await mkdtemp(join(tmpdir(), 'bagfs-lock-'))
  await compileState(program)
  await writeFile(join(program, 'holder.js'), HOLDER)
})
afterAll(() => rm(program, { recursive: true }))
afterEach(async () => {
  await Promise.all(children.splice(0).map((child) => kill(child)))
})

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

interface Holder {
  readonly child: ChildProcess
  /** Sends a line and resolves with the next one that the process says. */
  go(): Promise<string>
}

async function startHolder(): Promise<Holder> {
  const child = spawn(process.execPath, [join(program, 'holder.js'), dir.path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  children.push(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const next = async (): Promise<string> => {
    const line = (await lines.next()) as IteratorResult<string, undefined>
    return line.value ?? 'gone'
  }
  expect(await next()).toBe('ready')
  return {
    child,
    go: () => {
      child.stdin.write('\n')
      return next()
    },
  }
}

test('a live holder in another process is named, with what to do', async () => {
  const holder = await startHolder()
  expect(await holder.go()).toBe('held')
  await expect(acquireLock(dir.path)).rejects.toMatchObject({
    code: 'locked',
    message: expect.stringContaining(`process ${holder.child.pid ?? ''}.`) as string,
    facts: { hint: expect.stringContaining('--state-dir') as string },
  })
  expect(await holder.go()).toBe('gone')
  await (await acquireLock(dir.path)).release()
})

test('the lock of a killed process is free at once', async () => {
  const holder = await startHolder()
  expect(await holder.go()).toBe('held')
  await kill(holder.child)
  expect(await readFile(join(dir.path, 'lock'), 'utf8')).toContain(String(holder.child.pid))
  const lock = await acquireLock(dir.path)
  expect(await readFile(join(dir.path, 'lock'), 'utf8')).toContain(String(process.pid))
  await lock.release()
})

test('of many processes that take over from a killed one, exactly one does', async () => {
  const first = await startHolder()
  expect(await first.go()).toBe('held')
  await kill(first.child)
  const rivals = await Promise.all(Array.from({ length: 6 }, startHolder))
  const said = await Promise.all(rivals.map((rival) => rival.go()))
  expect(said.filter((line) => line === 'held')).toHaveLength(1)
  expect(said.filter((line) => line.startsWith('locked '))).toHaveLength(5)
  const winner = rivals[said.indexOf('held')]
  await expect(acquireLock(dir.path)).rejects.toMatchObject({
    message: expect.stringContaining(`process ${winner?.child.pid ?? ''}.`) as string,
  })
})

test('a name left behind holds nothing, even when a live process has its pid', async () => {
  await writeFile(join(dir.path, 'lock'), `${process.ppid} 1\n`)
  await (await acquireLock(dir.path)).release()
})

test('a pid that now belongs to a process with another start time is not named', async () => {
  const holder = await startHolder()
  expect(await holder.go()).toBe('held')
  await writeFile(join(dir.path, 'lock'), `${process.pid} 1\n`)
  await expect(acquireLock(dir.path)).rejects.toMatchObject({
    code: 'locked',
    message: expect.stringContaining('Another process') as string,
  })
})

test('the same process cannot take it twice, and release may be called again', async () => {
  const lock = await acquireLock(dir.path)
  await expect(acquireLock(dir.path)).rejects.toMatchObject({ code: 'locked' })
  await lock.release()
  const next = await acquireLock(dir.path)
  await lock.release()
  await expect(acquireLock(dir.path)).rejects.toMatchObject({ code: 'locked' })
  await next.release()
  expect(await readdir(dir.path)).toEqual(['lock.db'])
})

test('what a crash left of its database keeps nobody out, and the locked file stays the same one', async () => {
  await (await acquireLock(dir.path)).release()
  const locked = join(dir.path, 'lock.db', 'LOCK')
  // A second name keeps the inode from being used again.
  await link(locked, join(dir.path, 'same'))
  await writeFile(join(dir.path, 'lock.db', 'CURRENT'), '')
  await (await acquireLock(dir.path)).release()
  expect((await stat(locked)).ino).toBe((await stat(join(dir.path, 'same'))).ino)
})

test('directories and the name are private', async () => {
  const path = join(dir.path, 'a', 'b')
  const lock = await acquireLock(path)
  for (const one of [join(dir.path, 'a'), path, join(path, 'lock.db')]) {
    expect((await stat(one)).mode & 0o777).toBe(0o700)
  }
  expect((await stat(join(path, 'lock'))).mode & 0o777).toBe(0o600)
  await lock.release()
})

test('a path where no directory can be is an error of this machine', async () => {
  await writeFile(join(dir.path, 'file'), '')
  await expect(acquireLock(join(dir.path, 'file'))).rejects.toMatchObject({ code: 'local-io' })
})
