import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deferred } from '../../src/domain/deferred.ts'
import type { FileRecordWire } from '../../src/service/wire.ts'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

describe.runIf(canMount())('reading a mounted drive', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(async () => {
    await bench.close()
  })

  it('lists what the account holds and reads it', async () => {
    await bench.service.upload('hello.txt', 'hello there\n')
    await bench.service.upload('ünïcode ☃.txt', 'snow\n')
    const drive = await bench.mount()
    expect(await drive.sh('ls -1')).toBe('hello.txt\nünïcode ☃.txt\n')
    expect(await drive.sh('cat hello.txt')).toBe('hello there\n')
    expect(await drive.sh('cat "ünïcode ☃.txt"')).toBe('snow\n')
    expect(await drive.sh('stat -c "%s %F" hello.txt')).toBe('12 regular file\n')
  })

  it('reads a large file whole and in pieces, byte for byte, with one download', async () => {
    // On a slow machine, content of twice 2 MiB or more is brought by two requests side by side.
    const content = randomBytes(4_000_000)
    await bench.service.upload('big.bin', content)
    const drive = await bench.mount()
    bench.service.forgetEvents()
    const sums = await drive.sh('sha256sum < big.bin; tail -c 5000 big.bin | sha256sum')
    const { createHash } = await import('node:crypto')
    const sum = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
    expect(sums).toBe(`${sum(content)}  -\n${sum(content.subarray(-5000))}  -\n`)
    const downloads = bench.service.events.filter(({ path }) => path.includes('/download/'))
    expect(downloads).toHaveLength(1)
  })

  it('reads again after a remount without asking the service', async () => {
    await bench.service.upload('kept.txt', 'kept\n')
    const first = await bench.mount()
    await first.sh('cat kept.txt')
    await first.leave()
    bench.service.forgetEvents()
    const second = await bench.mount()
    expect(await second.sh('cat kept.txt')).toBe('kept\n')
    expect(bench.service.events.filter(({ path }) => path.includes('/download/'))).toHaveLength(0)
  })

  it('shows a change made elsewhere within the time to live of the listing', async () => {
    const drive = await bench.mount('--listing-ttl', '100ms')
    expect(await drive.sh('ls')).toBe('')
    const bagId = await bench.service.upload('new.txt', 'new\n')
    await expect.poll(() => drive.sh('ls')).toBe('new.txt\n')
    await bench.service.delete(bagId)
    await expect.poll(() => drive.sh('ls')).toBe('')
  })

  it('is not fooled by sizes that were told before better ones were learned', async () => {
    const bags: FileRecordWire[] = []
    await bench.close()
    bench = await Bench.start({ extraRecords: () => bags })
    const names = Array.from({ length: 13 }, (_, index) => String.fromCharCode(97 + index))
    for (const filename of names) {
      const bag_id = await bench.service.upload(`plain ${filename}`, `all of ${filename}\n`)
      bags.push({ filename, bag_id, size: 1, uploaded_at: 1, description: '' })
    }
    const mayPass = deferred()
    const match = { method: 'GET', path: /download/ }
    bench.service.proxy.add({ match, fault: { before: () => mayPass.promise } })
    const drive = await bench.mount()
    const told = join(bench.dir, 'told')
    const learned = join(bench.dir, 'learned')
    const read = drive.sh(`stat -c %s ?; touch ${told}; until [ -e ${learned} ]; do :; done; cat ?`)
    const fast = { interval: 5 }
    await expect.poll(() => existsSync(told), fast).toBe(true)
    mayPass.resolve()
    const downloads = (): number =>
      bench.service.events.filter(({ path }) => path.includes('/download/')).length
    await expect.poll(downloads, fast).toBeGreaterThanOrEqual(names.length)
    writeFileSync(learned, '')
    const contents = names.map((name) => `all of ${name}\n`).join('')
    expect(await read).toBe('1\n'.repeat(names.length) + contents)
  })

  it('is not fooled by wrong listed sizes', async () => {
    const honest = await bench.service.upload('real.txt', 'x'.repeat(5_000))
    await bench.close()
    bench = await Bench.start({
      extraRecords: () =>
        [
          ['short.txt', 10],
          ['long.txt', 900_000],
          ['negative.txt', -1],
        ].map(([filename, size]) => ({
          filename: String(filename),
          size: Number(size),
          uploaded_at: 1,
          description: '',
          bag_id: honest,
        })),
    })
    const again = await bench.service.upload('real.txt', 'x'.repeat(5_000))
    expect(again).toBe(honest)
    const drive = await bench.mount()
    for (const name of ['short.txt', 'long.txt', 'negative.txt']) {
      expect(await drive.sh(`ls -l ${name} >/dev/null; cat ${name} | wc -c`)).toBe('5000\n')
      expect(await drive.sh(`sleep 1.1; stat -c %s ${name}`)).toBe('5000\n')
    }
  })

  it('keeps an open file readable when it is unlinked or replaced', async () => {
    await bench.service.upload('a.txt', 'old\n')
    await bench.service.upload('b.txt', 'unlinked\n')
    const drive = await bench.mount()
    const seen = await drive.sh(
      'exec 3<a.txt 4<b.txt; echo new > t; mv t a.txt; rm b.txt; cat <&3 <&4; cat <&4; cat a.txt; ls -A',
    )
    expect(seen).toBe('unlinked\nnew\na.txt\n')
    const old = await drive.sh('exec 3<a.txt; echo newer > t2; mv t2 a.txt; cat <&3')
    expect(old).toBe('new\n')
    await expect.poll(() => bench.service.contents()).toEqual({ 'a.txt': 'newer\n' })
  })

  it('refuses what it cannot do with the errno that programs expect', async () => {
    await bench.service.upload('a.txt', 'a')
    const drive = await bench.mount()
    expect((await drive.fails('ln a.txt b.txt')).stderr).toContain('Operation not permitted')
    expect((await drive.fails('cat missing')).stderr).toContain('No such file or directory')
    expect((await drive.fails('cat a.txt/b')).stderr).toContain('Not a directory')
    const long = 'n'.repeat(256)
    expect((await drive.fails(`touch ${long}`)).stderr).toContain('File name too long')
  })

  it('reads, writes and measures beyond 4 GiB', async () => {
    await bench.close()
    bench = await Bench.start({ capacityBytes: 2 ** 35 })
    const drive = await bench.mount()
    const program = `
import os
fd = os.open('far.bin', os.O_RDWR | os.O_CREAT)
os.pwrite(fd, b'head', 0)
os.pwrite(fd, b'tail', 5 * 2**30)
print(os.pread(fd, 9, 5 * 2**30), os.fstat(fd).st_size, os.pread(fd, 4, 2**30), os.stat('far.bin').st_size)
os.ftruncate(fd, 4)
os.close(fd)
`
    const { stdout } = await execa('python3', ['-c', program], { cwd: drive.path })
    const size = 5 * 2 ** 30 + 4
    expect(stdout).toBe(String.raw`b'tail' ${size} b'\x00\x00\x00\x00' ${size}`)
    await expect.poll(() => bench.service.contents()).toEqual({ 'far.bin': 'head' })
  })

  it('tells the space of the account', async () => {
    await bench.close()
    bench = await Bench.start({ capacityBytes: 100 * 4096 })
    await bench.service.upload('a.bin', new Uint8Array(10 * 4096))
    const drive = await bench.mount()
    expect(await drive.sh('stat -f -c "%b %a %S" .')).toBe('100 90 4096\n')
  })

  it('tells a program that opens more files than the drive may have open, and goes on', async () => {
    const drive = await bench.mount()
    await drive.sh('for i in $(seq 60); do echo $i > $i; done')
    const { pid = 0 } = drive.process
    const limit = readdirSync(`/proc/${pid}/fd`).length + 30
    await execa('prlimit', ['--pid', `${pid}`, `--nofile=${limit}:${limit}`])
    const openAll = 'for i in $(seq 60); do exec {file}<$i; read -r <&$file; done'
    expect((await drive.fails(openAll)).stderr).toContain('Too many open files')
    expect(await drive.sh('cat $(seq 60) | sort -n')).toBe(await drive.sh('seq 60'))
  })

  it('tells of each file what user.bagfs attributes promise', async () => {
    const bagId = await bench.service.upload('a.txt', 'a', 'my words')
    const drive = await bench.mount()
    const get = (name: string): Promise<string> =>
      drive.sh(`getfattr --only-values -n user.bagfs.${name} a.txt`)
    expect(await get('bag_id')).toBe(bagId)
    expect(await get('state')).toBe('stored')
    expect(await get('description')).toBe('my words')
    expect(await get('kind')).toBe('file')
    await drive.sh('setfattr -n user.bagfs.description -v "other words" a.txt')
    expect(await get('description')).toBe('other words')
    await expect
      .poll(async () => (await bench.service.list()).map(({ description }) => description))
      .toEqual(['other words'])
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'a' })
    expect((await drive.fails('getfattr -n user.other a.txt')).stderr).toContain(
      'No such attribute',
    )
    await drive.sh('setfattr -n user.other -v 1 a.txt')
    expect(await drive.sh('getfattr --only-values -n user.other a.txt')).toBe('1')
    expect((await drive.fails('setfattr -n user.bagfs.other -v 1 a.txt')).stderr).toContain(
      'not supported',
    )
  })
})
