import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { lockDirectory } from '../../../src/local-service/directory-lock.ts'
import { makeTempDir } from './fixture.ts'

interface Holder {
  readonly pid: number
  readonly started: string
}

async function readHolder(directory: string): Promise<Holder> {
  return JSON.parse(await readFile(join(directory, 'lock'), 'utf8')) as Holder
}

describe('lockDirectory', () => {
  it('lets one in, and the next one when it is released', async () => {
    const directory = await makeTempDir()
    const first = await lockDirectory(directory)
    await expect(lockDirectory(directory)).rejects.toMatchObject({ code: 'locked' })
    await first.release()
    const second = await lockDirectory(directory)
    await first.release()
    await expect(lockDirectory(directory)).rejects.toMatchObject({ code: 'locked' })
    await second.release()
    expect(await readdir(directory)).toEqual([])
  })

  it('lets one in of many at the same time, also over a stale lock', async () => {
    for (const stale of [undefined, '{"pid":1,"started":"another boot/1"}', 'cut']) {
      const directory = await makeTempDir()
      if (stale !== undefined) await writeFile(join(directory, 'lock'), stale)
      const tries = await Promise.allSettled(
        Array.from({ length: 20 }, () => lockDirectory(directory)),
      )
      expect(tries.filter((one) => one.status === 'fulfilled')).toHaveLength(1)
      expect(await readdir(directory)).toEqual(['lock'])
    }
  })

  it('names the live process that holds it, and takes over when that one is killed', async () => {
    const directory = await makeTempDir()
    const own = await lockDirectory(directory)
    const { started } = await readHolder(directory)
    await own.release()
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000); console.log("up")'])
    onTestFinished(() => void child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    const pid = child.pid ?? 0
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
    const ticks = stat.slice(stat.lastIndexOf(')')).split(' ')[20] ?? ''
    const holder = { pid, started: `${started.split('/')[0] ?? ''}/${ticks}` }
    await writeFile(join(directory, 'lock'), JSON.stringify(holder))
    await expect(lockDirectory(directory)).rejects.toMatchObject({
      code: 'locked',
      message: expect.stringContaining(`process ${pid}`) as string,
    })
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
    await (await lockDirectory(directory)).release()
  })

  it('is not misled by a later process with the same pid', async () => {
    const directory = await makeTempDir()
    const own = await lockDirectory(directory)
    const holder = await readHolder(directory)
    await own.release()
    await writeFile(join(directory, 'lock'), JSON.stringify({ ...holder, started: 'earlier' }))
    await (await lockDirectory(directory)).release()
  })

  it('says which directory cannot be locked', async () => {
    const missing = join(await makeTempDir(), 'missing')
    await expect(lockDirectory(missing)).rejects.toMatchObject({
      code: 'local-io',
      message: expect.stringContaining(missing) as string,
    })
  })
})
