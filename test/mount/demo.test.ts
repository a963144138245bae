import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { HANGING_MS } from '../support/mounted-drive.ts'
import { placesIn } from '../support/places.ts'

const OFTEN = { interval: 2 }

let dir: string
let runtimeDir: string
let demo: ChildProcess
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-demo-'))
  runtimeDir = mkdtempSync(join(tmpdir(), 'bagfs-demo-runtime-'))
  demo = spawn(process.execPath, [resolve('dist/main.js'), 'demo'], {
    cwd: dir,
    env: { ...process.env, ...placesIn(runtimeDir) },
    stdio: 'ignore',
  })
})
afterEach(() => {
  demo.kill('SIGKILL')
  spawnSync('fusermount', ['-uzq', join(dir, 'drive')])
  for (const each of [dir, runtimeDir]) rmSync(each, { recursive: true, force: true })
})

const ended = async (): Promise<void> => {
  if (demo.exitCode === null) await once(demo, 'exit', { signal: AbortSignal.timeout(HANGING_MS) })
}

const isMounted = (): boolean => readFileSync('/proc/self/mounts', 'utf8').includes(`${dir}/drive`)

describe.runIf(canMount())('the drive of npm start', () => {
  it('has samples, and Ctrl-C leaves nothing behind', async () => {
    await expect.poll(isMounted, OFTEN).toBe(true)
    await expect.poll(() => existsSync(join(dir, 'drive/Welcome.txt')), OFTEN).toBe(true)
    demo.kill('SIGINT')
    await ended()
    expect(demo.exitCode).toBe(0)
    expect(readdirSync(dir)).toEqual([])
  })

  it.each(['drive', '.bagfs-demo', '.bagfs-demo/samples', '.bagfs-demo/state'])(
    'is stopped by Ctrl-C while it starts, and leaves nothing behind (once there is %s)',
    async (made) => {
      await expect.poll(() => existsSync(join(dir, made)), OFTEN).toBe(true)
      demo.kill('SIGINT')
      await ended()
      expect(isMounted()).toBe(false)
      expect(readdirSync(dir)).toEqual([])
    },
  )

  it('leaves nothing behind however often Ctrl-C is pressed', async () => {
    await expect.poll(isMounted, OFTEN).toBe(true)
    while (demo.exitCode === null && demo.signalCode === null) {
      demo.kill('SIGINT')
      // Without a pause it would have nothing else to do than to hear of signals.
      await setTimeout(2)
    }
    expect(isMounted()).toBe(false)
    expect(readdirSync(dir)).toEqual([])
  })
})
