import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, describe, expect, it } from 'vitest'
import { canMount, canMountSmallDisk } from '../support/fuse.ts'
import { Bench, HANGING_MS } from '../support/mounted-drive.ts'

const MEBIBYTE = 2 ** 20

let bench: Bench
afterEach(async () => {
  await bench.close()
})

describe.runIf(canMount())('a log that cannot be written', () => {
  it('because nobody reads it any more does not end the drive', async () => {
    bench = await Bench.start()
    await bench.service.upload('a.txt', 'a\n')
    const drive = await bench.mount()
    drive.process.stdout?.destroy()
    drive.process.stderr?.destroy()
    // Each of these is a line of the log.
    for (let i = 0; i < 5; i += 1) await drive.fails(`stat missing-${i}`)
    expect(await drive.sh('cat a.txt; echo b > b.txt; cat b.txt')).toBe('a\nb\n')
    drive.signal('SIGTERM')
    expect(await drive.ended()).toBe(0)
    expect(drive.isMounted).toBe(false)
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'a\n', 'b.txt': 'b\n' })
  })

  it.runIf(canMountSmallDisk())(
    'because the local disk is full does not end it either',
    async () => {
      bench = await Bench.start({ stateBytes: 24 * MEBIBYTE })
      await bench.service.upload('a.txt', 'a\n')
      // In the background the log is a file in the state directory.
      expect((await bench.mountBy('--log-level', 'debug')).code).toBe(0)
      const filler = join(bench.stateDir, 'filler')
      expect(() => {
        writeFileSync(filler, Buffer.alloc(40 * MEBIBYTE))
      }).toThrow('ENOSPC')
      const run = (command: string) =>
        execa('bash', ['-c', command], {
          cwd: bench.mountpoint,
          reject: false,
          timeout: HANGING_MS,
        })
      for (let i = 0; i < 5; i += 1) await run(`stat missing-${i}`)
      expect((await run('echo new > new.txt')).stderr).toContain('No space left on device')
      expect((await run('cat a.txt')).stderr).toContain('No space left on device')
      rmSync(filler)
      expect(await run('echo new > new.txt && cat new.txt')).toMatchObject({ stdout: 'new' })
      expect(await run('cat a.txt; stat missing-afterwards')).toMatchObject({ stdout: 'a' })
      const [log = ''] = readdirSync(join(bench.stateDir, 'logs'))
      expect(readFileSync(join(bench.stateDir, 'logs', log), 'utf8')).toContain(
        'missing-afterwards',
      )
      expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
    },
  )
})

describe.runIf(canMount())('bagfs log', () => {
  it('prints the log of a drive in the background, also after its end', async () => {
    bench = await Bench.start()
    const log = (...args: readonly string[]) => bench.bagfs(['log', ...args])
    expect((await log(bench.mountpoint)).code).toBe(4)
    expect((await bench.mountBy('--log-level', 'debug')).code).toBe(0)
    await execa('stat', [join(bench.mountpoint, 'missing')], { reject: false })
    expect(await log()).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('missing') as unknown,
    })
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
    const ended = await log(bench.mountpoint, '--state-dir', bench.stateDir)
    expect(ended).toMatchObject({ code: 0, stdout: expect.stringContaining('missing') as unknown })
  })

  it('tells where to look for the log of a drive in the foreground', async () => {
    bench = await Bench.start()
    const drive = await bench.mount()
    const { code, stderr } = await bench.bagfs(['log', drive.path])
    expect(code).toBe(4)
    expect(stderr).toContain('It runs in the foreground')
  })
})
