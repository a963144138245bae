import { execFileSync } from 'node:child_process'
import { mkdtemp, rmdir, statfs, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { noiseOf } from '../../support/seed.ts'
import { cleanUp, id, readAll, readSome, setUp } from './fake-downloads.ts'

afterEach(cleanUp)

const A = id('a')
const B = id('b')
const MIB = 1024 * 1024

/** Runs a command of the operating system on a directory. */
function system(command: string, dir: string): void {
  const [program = '', ...words] = command.split(' ')
  execFileSync(program, [...words, dir], { stdio: 'ignore' })
}

/** A disk of 8 MiB; only root can mount one. */
async function smallDisk(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'bagfs-small-disk-'))
  system('mount -t tmpfs -o size=8m bagfs-test', dir)
  onTestFinished(async () => {
    await cleanUp()
    system('umount -l', dir)
    await rmdir(dir)
  })
  return dir
}

const canMount = ((): boolean => {
  try {
    system('unshare -m mount -t tmpfs probe', '/mnt')
    return process.getuid?.() === 0
  } catch {
    return false
  }
})()

describe.skipIf(!canMount)('on a disk that is full', () => {
  it.each([true, false])(
    'a bag larger than the disk is read to its end (ranges: %s)',
    async (ranges) => {
      const disk = await smallDisk()
      const { reopen, service } = await setUp({ ranges })
      const cache = await reopen({ dir: join(disk, 'cache') })
      const content = noiseOf(30 * MIB)
      service.contents.set(A, content)
      const reader = cache.open(A)
      expect((await readAll(reader, MIB)).equals(content)).toBe(true)
      reader.close()
      await cache.close()
    },
  )

  it('idle content goes first', async () => {
    const disk = await smallDisk()
    const { reopen, service } = await setUp()
    const cache = await reopen({ dir: join(disk, 'cache') })
    for (const bag of [A, B]) service.contents.set(bag, noiseOf(5 * MIB))
    const first = cache.open(A)
    await readAll(first, MIB)
    first.close()
    const second = cache.open(B)
    expect(await readAll(second, MIB)).toHaveLength(5 * MIB)
    expect(cache.isComplete(B)).toBe(true)
    expect(cache.isComplete(A)).toBe(false)
    expect(service.requests.filter(({ bagId }) => bagId === B)).toHaveLength(1)
  })

  it('of others, a read fails with a clear error, and works again when there is room', async () => {
    const disk = await smallDisk()
    const { reopen, service } = await setUp()
    const cache = await reopen({ dir: join(disk, 'cache') })
    service.contents.set(A, noiseOf(MIB))
    const { bavail, bsize } = await statfs(disk)
    const foreign = join(disk, 'foreign')
    await writeFile(foreign, Buffer.alloc(bavail * bsize))
    const reader = cache.open(A)
    await expect(readSome(reader, 0, 10)).rejects.toMatchObject({ code: 'local-disk-full' })
    await writeFile(foreign, '')
    expect(await readAll(reader, MIB)).toHaveLength(MIB)
  })
})
