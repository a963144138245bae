import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMountSmallDisk } from '../support/fuse.ts'
import { Bench, type MountedDrive, type Outcome } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'
import { fillDisk } from '../support/small-disk.ts'
import { unpackFolder } from '../support/unpacked.ts'

const MEBIBYTE = 2 ** 20
/** Writes until nothing more goes onto the disk, with files that get smaller. */
const FILL = `
for size in 1000000 60000 4000 100; do
  for i in $(seq 400); do
    head -c $size /dev/urandom > w$size.$i 2>/dev/null || { rm -f w$size.$i; break; }
  done
done`

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start({ stateBytes: 24 * MEBIBYTE })
})
afterEach(async () => {
  await bench.close()
})

const bagfs = (...args: readonly string[]): Promise<Outcome> => bench.bagfs(args)

/** Sum by name of all files in the root of the drive. */
async function sumsIn(drive: MountedDrive): Promise<Record<string, string>> {
  const lines = (await drive.sh('sha256sum *')).trimEnd().split('\n')
  return Object.fromEntries(lines.map((line) => [line.slice(66), line.slice(0, 64)]))
}

async function sumsAtService(): Promise<Record<string, string>> {
  const sums: Record<string, string> = {}
  for (const { filename, bag_id } of await bench.service.list()) {
    expect(Object.keys(sums)).not.toContain(filename)
    const content = await bench.service.content(bag_id)
    sums[filename] = createHash('sha256').update(content).digest('hex')
  }
  return sums
}

function accountDir(): string {
  const found = readdirSync(bench.stateDir).find((name) => name.startsWith('127.0.0.1'))
  return join(bench.stateDir, found ?? '')
}

describe.runIf(canMountSmallDisk())('a local disk that cache and trash take', () => {
  it('gives that to what programs write, move and read', async () => {
    const sizes = ['--cache-size', '12MB', '--min-free', '1MB', '--folder-settle', '100ms']
    const drive = await bench.mount(...sizes)
    await drive.sh('mkdir D; head -c 3000000 /dev/urandom | base64 > D/x; sha256sum < D/x > ../sum')
    expect((await bagfs('sync')).code).toBe(0)
    await drive.sh('for i in 1 2 3 4; do head -c 2900000 /dev/urandom > t$i; rm t$i; done')
    expect((await bagfs('trash')).stdout).toContain('t4')
    await drive.sh('cat D/x | sha256sum | cmp - ../sum')
    await drive.sh('head -c 13000000 /dev/urandom > large')
    expect((await bagfs('trash')).stdout).not.toContain('t1')
    await drive.sh('rm large; mv D/x moved; sha256sum < moved | cmp - ../sum')
    expect((await bagfs('sync')).code).toBe(0)
  })

  it('gives it of what is pinned last, which is fetched again once there is room', async () => {
    await bench.service.upload('kept', randomBytes(6_000_000))
    const drive = await bench.mount('--min-free', '2MB', '--keep-deleted', '0')
    const kept = `${bench.mountpoint}/kept`
    const list = async (): Promise<string> => (await bagfs('pin', '--list')).stdout
    expect((await bagfs('pin', kept)).code).toBe(0)
    await expect.poll(list).toContain('all here')
    await bench.service.upload('read', randomBytes(12_000_000))
    expect((await bagfs('refresh')).code).toBe(0)
    await drive.sh('cat read > /dev/null')
    expect(await list()).toContain('all here')
    await drive.sh('head -c 17000000 /dev/urandom > large; sha256sum < large > ../sum')
    expect(drive.log).toContain('Pinned content gave way')
    await drive.sh('sha256sum < large | cmp - ../sum; rm large')
    await expect.poll(list).toContain('all here')
  })
})

describe.runIf(canMountSmallDisk())('a local disk that the outbox filled', () => {
  it('is emptied by sync once the service is back, and deletes are taken meanwhile', async () => {
    await bench.service.upload('stored.txt', 'stored\n')
    const drive = await bench.mount('--write-back')
    await drive.sh('ls')
    await bench.service.proxy.down()
    await drive.sh(FILL)
    const names = (await drive.sh('ls')).trimEnd().split('\n')
    expect(names.length).toBeGreaterThan(12)
    expect((await drive.fails('head -c 5000000 /dev/zero > more')).stderr).toContain('No space')
    await drive.sh('rm w1000000.1 stored.txt; rm -f more')
    const sums = await sumsIn(drive)
    await bench.service.proxy.up()
    expect(await bagfs('sync')).toMatchObject({ code: 0, stderr: '' })
    expect(await sumsAtService()).toEqual(sums)
    await expect.poll(() => drive.sh('echo new > new.txt || true; cat new.txt')).toBe('new\n')
    expect(drive.log).not.toContain('this is a bug')
  })

  it('takes nothing new, in files that are unlinked or changed in place neither', async () => {
    const stored = Array.from({ length: 9 }, (_, at) => `stored${at}`)
    for (const name of stored) await bench.service.upload(name, name)
    const drive = await bench.mount('--write-back', '--folder-settle', '1h')
    await drive.sh('mkdir F; head -c 2000000 /dev/urandom > F/large; cp F/large ../large; ls')
    const open = (path: string) => OpenFile.open(join(drive.path, path), 'os.O_CREAT | os.O_WRONLY')
    const files = [await open('F/unlinked'), await open('unlinked'), await open('F/large')]
    try {
      await bench.service.proxy.down()
      await drive.sh('rm F/unlinked unlinked')
      const spare = join(bench.stateDir, 'spare')
      writeFileSync(spare, randomBytes(200_000))
      // What is written down takes the place of the reserve, and there is no room to make it again.
      fillDisk(bench.stateDir)
      for (const name of stored) {
        if (!readdirSync(accountDir()).includes('reserve')) break
        await drive.sh(`rm ${name}`)
        fillDisk(bench.stateDir)
      }
      rmSync(spare)
      for (const file of files) expect(await file.writeAt(5, 'x'.repeat(50_000))).toBe('ENOSPC')
      await drive.sh('cmp F/large ../large')
    } finally {
      for (const file of files) file.end()
    }
  })

  it('is emptied by the next mount, although others have filled it to the last byte', async () => {
    const drive = await bench.mount('--write-back')
    await bench.service.proxy.down()
    await drive.sh(FILL)
    const sums = await sumsIn(drive)
    expect((await bagfs('umount', '--now', bench.mountpoint)).code).toBe(0)
    await drive.ended()
    expect(statSync(join(accountDir(), 'reserve')).blocks * 512).toBeGreaterThan(3 * MEBIBYTE)
    fillDisk(bench.stateDir)
    await bench.service.proxy.up()
    const next = await bench.mount()
    expect(await bagfs('sync')).toMatchObject({ code: 0, stderr: '' })
    expect(await sumsAtService()).toEqual(sums)
    await expect.poll(() => readdirSync(accountDir()).includes('reserve')).toBe(true)
    await next.sh('echo new > new.txt')
    expect((await bagfs('umount', bench.mountpoint)).code).toBe(0)
  })

  it('is listed, saved and discarded without any room, and a mount says what is wrong', async () => {
    const drive = await bench.mount('--write-back')
    await bench.service.proxy.down()
    await drive.sh(FILL)
    const sums = await sumsIn(drive)
    await bagfs('umount', '--now', bench.mountpoint)
    await drive.ended()
    rmSync(join(accountDir(), 'reserve'))
    fillDisk(bench.stateDir)
    const where = ['--state-dir', bench.stateDir]
    const list = await bagfs('outbox', 'list', ...where)
    expect(list).toMatchObject({ code: 0, stderr: '' })
    expect(list.stdout).toContain(' w1000000.1 ')
    const out = join(bench.dir, 'out')
    mkdirSync(out)
    expect(await bagfs('outbox', 'save', '--to', out, ...where)).toMatchObject({ code: 0 })
    const saved = (await execa('bash', ['-c', 'sha256sum *'], { cwd: out })).stdout.split('\n')
    expect(saved).toEqual(Object.entries(sums).map(([name, sum]) => `${sum}  ${name}`))
    await bench.service.proxy.up()
    const refused = await bench.mountBy()
    expect(refused.code).toBe(6)
    expect(refused.stderr).toMatch(/^bagfs: The local disk is full: .*\.\n {2}Free some space/)
    const gone = ['w1000000.1', 'w1000000.2', 'w1000000.3', 'w1000000.4', 'w1000000.5']
    expect(await bagfs('outbox', 'discard', ...gone, '--yes', ...where)).toMatchObject({ code: 0 })
    const next = await bench.mount()
    expect(await bagfs('sync')).toMatchObject({ code: 0, stderr: '' })
    const left = Object.entries(sums).filter(([name]) => !gone.includes(name))
    expect(await sumsAtService()).toEqual(Object.fromEntries(left))
    await next.leave()
  })

  it('sends no folder straight to a service that had no room for it, before it has', async () => {
    await bench.close()
    bench = await Bench.start({ stateBytes: 24 * MEBIBYTE, capacityBytes: 20_000_000 })
    const drive = await bench.mount('--folder-settle', '1h')
    await drive.sh('mkdir F; head -c 14000000 /dev/urandom > F/large.jpg')
    const other = await bench.service.upload('other', randomBytes(10_000_000))
    expect(await bagfs('sync')).toMatchObject({ code: 1 })
    const tries = (): number =>
      bench.service.events.filter(({ method, path }) => method === 'POST' && /upload$/.test(path))
        .length
    const before = tries()
    expect(before).toBe(2)
    expect(await bagfs('sync')).toMatchObject({ code: 1 })
    expect(tries()).toBe(before)
    await bench.service.delete(other)
    expect(await bagfs('sync')).toMatchObject({ code: 0, stderr: '' })
    expect(bench.service.uploads()).toHaveLength(2)
    await drive.leave()
  })

  it.each([{ crashAt: 'no.step' }, { crashAt: 'upload.begin' }, { crashAt: 'upload.answered' }])(
    'lets a folder go straight to the service, once, when its zip has no room (killed at $crashAt)',
    async ({ crashAt }) => {
      const drive = await bench.mountKilledAt(crashAt, '--folder-settle', '1h')
      await drive.sh('mkdir F; head -c 14000000 /dev/urandom > F/large.jpg; seq 300000 > F/text')
      const sum = await drive.sh('cd F; sha256sum *')
      const synced = await bagfs('sync')
      if (crashAt === 'no.step') expect(synced).toMatchObject({ code: 0, stderr: '' })
      else await drive.kill()
      const next = crashAt === 'no.step' ? drive : await bench.mount()
      expect((await bagfs('sync')).code).toBe(0)
      await expect.poll(() => bench.service.list()).toHaveLength(1)
      expect(bench.service.uploads()).toHaveLength(1)
      expect(await next.sh('cd F; sha256sum *')).toBe(sum)
      expect(`${drive.log}${next.log}`).toContain('goes straight to the service')
      const target = join(bench.dir, 'unpacked')
      await unpackFolder(bench.service, 'F', target)
      expect(`${(await execa('bash', ['-c', 'sha256sum *'], { cwd: target })).stdout}\n`).toBe(sum)
      await next.leave()
    },
  )

  it('lets a changed folder that only the service has go straight there', async () => {
    mkdirSync(join(bench.dir, 'plain'))
    const plain = (command: string) =>
      execa('bash', ['-ec', command], { cwd: join(bench.dir, 'plain') })
    await plain(`mkdir F; head -c ${10 * MEBIBYTE} /dev/urandom > F/large.jpg; echo old > F/small`)
    const first = await bench.mount()
    await first.sh('cp -a ../plain/F .')
    await first.leave()
    await execa('bash', ['-ec', 'rm -r $(find state -type d -name cache)'], { cwd: bench.dir })
    const drive = await bench.mount('--folder-settle', '1h')
    expect(await drive.sh('ls F')).toBe('large.jpg\nsmall\n')
    const filler = join(bench.stateDir, 'filler')
    writeFileSync(filler, Buffer.alloc(12 * MEBIBYTE))
    await plain('echo new > F/small')
    await drive.sh('echo new > F/small')
    expect(await bagfs('sync')).toMatchObject({ code: 0, stderr: '' })
    await expect.poll(() => drive.log).toContain('goes straight to the service')
    expect(bench.service.uploads()).toHaveLength(2)
    await expect.poll(() => bench.service.list()).toHaveLength(1)
    await unpackFolder(bench.service, 'F', join(bench.dir, 'unpacked'))
    await execa('diff', ['-r', 'plain/F', 'unpacked'], { cwd: bench.dir })
    await drive.leave()
  })
})
