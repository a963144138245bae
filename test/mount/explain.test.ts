import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type Outcome } from '../support/mounted-drive.ts'
import { Terminal } from '../support/terminal.ts'
import { placesIn } from '../support/places.ts'

describe.runIf(canMount())('a drive that is asked', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })
  const explain = (path: string, ...args: readonly string[]): Promise<Outcome> =>
    bench.bagfs(['explain', `${bench.mountpoint}/${path}`, ...args])

  it('tells of files, folders, what was deleted and what the drive makes up, and of none without a drive', async () => {
    const drive = await bench.mount()
    await drive.sh('printf one > a.txt; printf two > gone.txt; mkdir f; echo x > f/x; rm gone.txt')
    await bench.bagfs(['sync', bench.mountpoint])
    expect((await explain('a.txt')).stdout).toContain(
      `Path:     ${bench.mountpoint}/a.txt (file, 3 B)\nState:    stored\nWhere:    at the service\n`,
    )
    const json: unknown = JSON.parse((await explain('f/x', '--json')).stdout)
    expect(json).toMatchObject({ version: 1, path: 'f/x', folder: 'f', state: 'stored', toDo: [] })
    expect((await explain('gone.txt')).stdout).toMatch(
      /To do: {4}bagfs trash restore \/\S+ [0-9a-f]{8} /,
    )
    expect((await explain('.bagfs/status')).stdout).toContain('made up by the drive')
    expect((await explain('')).stdout).toContain(`bagfs status ${bench.mountpoint}`)
    const none = await explain('nothing')
    expect(none).toMatchObject({ code: 4, stdout: '' })
    expect(none.stderr).toContain('There is nothing called nothing in the drive.')
    await drive.kill()
    const dead = await explain('a.txt')
    expect(dead).toMatchObject({ code: 2, stdout: '' })
    expect(dead.stderr).toContain(`Mount it again: bagfs mount ${bench.mountpoint}`)
  })

  it('fetches ahead and asks for the listing when it is told to', async () => {
    const drive = await bench.mount('--listing-ttl', '10m')
    expect(await drive.sh('ls')).toBe('')
    await bench.service.upload('new.txt', 'content')
    expect((await bench.bagfs(['refresh', bench.mountpoint])).stdout).toBe(
      `${bench.mountpoint}: 1 bag`,
    )
    const warm = await bench.bagfs(['warmup', `${bench.mountpoint}/new.txt`])
    expect(warm).toMatchObject({
      code: 0,
      stdout: '1 bag, 7 B: can be read without the network.',
    })
    expect(warm.stderr).toContain('1 of 1 bag, 7 B of 7 B')
    expect((await bench.bagfs(['warmup', `${bench.mountpoint}/nothing`])).code).toBe(4)
    await bench.service.proxy.down()
    expect(await drive.sh('cat new.txt')).toBe('content')
    expect((await bench.bagfs(['refresh'])).code).toBe(5)
  })

  it('draws a bar of a warm-up on a terminal', async () => {
    await bench.mount()
    await bench.service.upload('large', 'x'.repeat(5_000_000))
    await bench.bagfs(['refresh'])
    bench.service.proxy.add({
      match: { path: /download/ },
      fault: { stallResponseAfter: 2_500_000 },
    })
    const command = [process.execPath, 'dist/main.js', 'warmup', bench.mountpoint]
    const env = { ...process.env, ...placesIn(bench.dir) }
    const terminal = Terminal.start(command, { cwd: process.cwd(), env })
    await expect.poll(() => terminal.shown).toMatch(/0 of 1 bag  =+-+  2\.\d MB of 5\.0 MB  .*B\/s/)
    await terminal.answer('MB of', '\x03')
    expect((await terminal.end()).exitCode).toBe(130)
  })

  it('ends a warm-up at Ctrl-C, and keeps what came', async () => {
    await bench.mount()
    await bench.service.upload('large', 'x'.repeat(5_000_000))
    await bench.bagfs(['refresh'])
    bench.service.proxy.add({
      match: { path: /download/ },
      fault: { stallResponseAfter: 1_000_000 },
    })
    const path = `${bench.mountpoint}/large`
    const warmUp = spawn(process.execPath, ['dist/main.js', 'warmup', path], {
      env: { ...process.env, ...placesIn(bench.dir) },
      stdio: 'ignore',
    })
    const { requests } = bench.service.proxy
    await expect.poll(() => requests.some(({ answerBytes }) => answerBytes > 500_000)).toBe(true)
    warmUp.kill('SIGINT')
    expect(await once(warmUp, 'close')).toEqual([130, null])
    expect((await explain('large')).stdout).toMatch(/Where: {4}.*B of it in the cache/)
  })
})
