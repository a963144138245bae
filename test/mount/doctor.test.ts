import { readdirSync } from 'node:fs'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, HANGING_MS, type Outcome } from '../support/mounted-drive.ts'
import { PROGRAM, TOKEN } from '../support/service-process.ts'
import { placesIn } from '../support/places.ts'

let bench: Bench

beforeEach(async () => {
  bench = await Bench.start()
})

afterEach(() => bench.close())

const doctor = (): Promise<Outcome> =>
  bench.bagfs(['doctor'], {
    env: { HOME: bench.dir, BAGFS_URL: bench.service.proxy.url, BAGFS_TOKEN: TOKEN },
  })

/** What the doctor says of the drive of this bench. */
async function aboutDrive(): Promise<string> {
  const { stdout } = await doctor()
  return stdout.split('\n').find((line) => line.includes(`${bench.mountpoint}:`)) ?? ''
}

describe.runIf(canMount())('bagfs doctor', () => {
  it('tells that a drive answers', async () => {
    await bench.mount()
    expect(await aboutDrive()).toMatch(/^ok +drive .*: it answers$/)
  })

  it('tells what a drive has learned of the listing', async () => {
    const drive = await bench.mount('--listing-ttl', '50ms', '--folder-settle', '50ms')
    const said = async (): Promise<string> => (await doctor()).stdout
    expect(await said()).toMatch(/^ok +listing lag +.*: not known yet/m)
    expect(await said()).toMatch(/^ok +folder names +.*: not known yet/m)
    await drive.sh('mkdir F; echo f > F/f; echo a > a')
    expect((await bench.bagfs(['sync', bench.mountpoint])).code).toBe(0)
    await drive.sh('ls')
    await expect.poll(said).toMatch(/^ok +listing lag +.*: (none|what is stored is listed)/m)
    await expect.poll(said).toMatch(/^ok +folder names +.*: the service lists the folder NAME/m)
  })

  it('tells of a drive that was killed, and the command that takes its mount away', async () => {
    const drive = await bench.mount()
    drive.signal('SIGKILL')
    await drive.ended()
    const { stdout, code } = await doctor()
    expect(code).toBe(1)
    expect(stdout).toMatch(/^failure +drive .*: its process ended without leaving\.$/m)
    const [, command = ''] =
      /^ +bagfs (umount \S+), then bagfs mount \S+ --url=\S+ /m.exec(stdout) ?? []
    const { exitCode } = await execa(process.execPath, [PROGRAM, ...command.split(' ')], {
      timeout: HANGING_MS,
      reject: false,
      env: placesIn(bench.dir),
    })
    expect(exitCode).toBe(0)
    expect(await aboutDrive()).toBe('')
  })

  it('takes away what a drive left that was killed and has nothing to send, as umount and status do', async () => {
    const sockets = (): readonly string[] =>
      readdirSync(bench.stateDir, { recursive: true, encoding: 'utf8' }).filter((path) =>
        path.endsWith('.sock'),
      )
    const kill = async (): Promise<void> => {
      const drive = await bench.mount()
      drive.signal('SIGKILL')
      await drive.ended()
      expect(sockets()).toHaveLength(1)
    }
    await kill()
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
    expect(sockets()).toEqual([])
    await kill()
    expect((await bench.bagfs(['status', bench.mountpoint])).stdout).toContain('without leaving')
    expect(sockets()).toEqual([])
    await execa('umount', [bench.mountpoint])
    await kill()
    await execa('umount', [bench.mountpoint])
    expect(await aboutDrive()).toMatch(/^ok +drive .*: its process was killed; nothing of it waits/)
    expect(sockets()).toEqual([])
    expect(await aboutDrive()).toBe('')
  })

  it('tells of a dead mount that no drive is known for', async () => {
    const drive = await bench.mount()
    drive.signal('SIGKILL')
    await drive.ended()
    const { stdout } = await bench.bagfs(['doctor'], { env: placesIn(bench.stateDir) })
    expect(stdout).toMatch(new RegExp(`^failure +drive +${bench.mountpoint}: a dead mount: `, 'm'))
    expect(stdout).toContain(`bagfs umount --now ${bench.mountpoint}`)
  })
})
