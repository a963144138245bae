import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'
import { NotifySocket } from '../support/notify-socket.ts'
import { PROGRAM, TOKEN } from '../support/service-process.ts'
import { placesIn } from '../support/places.ts'

let bench: Bench

beforeEach(async () => {
  bench = await Bench.start()
})

afterEach(() => bench.close())

describe.runIf(canMount())('a drive that a service manager starts', () => {
  it('tells it when it is mounted, and that it leaves, and sends what waits before it ends', async () => {
    const path = join(bench.dir, 'notify')
    const manager = await NotifySocket.listen(path)
    onTestFinished(() => {
      manager.close()
    })
    mkdirSync(bench.mountpoint, { recursive: true })
    const token = join(bench.dir, 'token')
    await writeFile(token, TOKEN, { mode: 0o600 })
    const args = ['--url', bench.service.proxy.url, '--token-file', token, '--write-back']
    const child = spawn(
      process.execPath,
      [PROGRAM, 'mount', '--foreground', ...args, '--state-dir', bench.stateDir, bench.mountpoint],
      {
        stdio: 'ignore',
        env: { ...process.env, NOTIFY_SOCKET: path, ...placesIn(bench.dir) },
      },
    )
    const ready = `READY=1\nSTATUS=Mounted at ${bench.mountpoint}`
    await expect.poll(() => manager.messages, { timeout: 60_000 }).toEqual([ready])
    await bench.service.proxy.down()
    await writeFile(join(bench.mountpoint, 'a.txt'), 'content')
    child.kill('SIGTERM')
    await expect
      .poll(() => manager.messages.join('\n'), { timeout: 60_000 })
      .toMatch(/STATUS=Leaving: 1 change waits, 7 B/)
    expect(manager.messages[1]).toMatch(/^STOPPING=1\nSTATUS=Leaving/)
    await bench.service.proxy.up()
    const [code] = (await once(child, 'exit')) as [number | null]
    expect(code).toBe(0)
  })
})
