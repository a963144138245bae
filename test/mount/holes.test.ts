import { stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'

/**
 * Writes by a map into a hole of a file, and tells where another open file finds data then. That one is opened when the
 * kernel has nothing to write of it, so that it keeps its pages.
 */
const MAPPED = `
import mmap, os, sys
path = sys.argv[1]
file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644); os.ftruncate(file, 16 << 20)
mapped = mmap.mmap(file, 16 << 20)
for _ in range(3): os.close(os.open(path, os.O_RDONLY)); os.stat(path)
mapped[4 << 20] = 65
reader = os.open(path, os.O_RDONLY)
try: print(os.lseek(reader, 0, os.SEEK_DATA) >> 20, os.lseek(reader, 0, os.SEEK_HOLE))
except OSError as error: print(os.strerror(error.errno))
mapped[8 << 20] = 66
try: print(os.lseek(reader, 5 << 20, os.SEEK_DATA) >> 20, os.pread(reader, 1, 4 << 20))
except OSError as error: print(os.strerror(error.errno))
mapped.close(); os.close(file)
print(os.lseek(reader, 5 << 20, os.SEEK_DATA) >> 20)`

/** In bytes. */
const LENGTH = 16 << 20
/** Of 512 bytes: far fewer than the length has, though copies are made a MiB at a time. */
const FEW_BLOCKS = 5_000

async function blocksOf(path: string): Promise<number> {
  return (await stat(path)).blocks
}

describe.runIf(canMount())('holes of a file in mode through', () => {
  it('are there in the moment in which it has been stored and is not in the cache yet', async () => {
    const bench = await Bench.start({ bridge: 'dev-fuse' })
    try {
      const drive = await bench.mount()
      const copy = 'truncate -s 16M f$i; cp --sparse=auto f$i ../copy; stat -c %b f$i ../copy'
      const blocks = await drive.sh(`for i in $(seq 20); do ${copy}; done`)
      for (const each of blocks.trim().split('\n')) expect(Number(each)).toBeLessThan(FEW_BLOCKS)
      // That no data follows is an answer like others.
      expect(drive.log).not.toContain('warn')
    } finally {
      await bench.close()
    }
  })
})

describe.runIf(canMount()).each(['.', 'd'])('holes of a file in %s', (place) => {
  let bench: Bench
  let drive: MountedDrive
  beforeEach(async () => {
    bench = await Bench.start({ bridge: 'dev-fuse' })
    drive = await bench.mount('--write-back', '--folder-settle', '1h')
    await drive.sh(`mkdir -p ${place}`)
  })
  afterEach(async () => {
    await bench.close()
  })

  it('are none where a program has written by a map', async () => {
    const told = await execa('python3', ['-c', MAPPED, join(drive.path, place, 'f')])
    expect(told.stdout).toBe("4 0\n8 b'A'\n8")
  })

  it('take no blocks, and programs pass over them, while it is written, closed, and stored', async () => {
    const sparse = join(drive.path, place, 'f')
    const file = await OpenFile.open(sparse, 'os.O_RDWR | os.O_CREAT')
    expect(await file.truncate(LENGTH)).toContain('ok')
    expect(await blocksOf(sparse)).toBe(1)
    expect(await file.writeAt(5_000_000, 'x'.repeat(9_999))).toBe('ok 9999')
    await expectHoles(sparse)
    // What is written from now on goes to a copy.
    expect(await file.sync()).toContain('ok')
    expect(await file.writeAt(3_000_000, 'y')).toBe('ok 1')
    await expectHoles(sparse)
    await file.close()
    await expectHoles(sparse)
    expect((await bench.bagfs(['sync', bench.mountpoint])).stderr).toBe('')
    if (place === '.') {
      await drive.sh('ls')
      await expectHoles(sparse)
      await drive.leave()
      drive = await bench.mount('--write-back')
      await expectHoles(sparse)
    }
    await drive.sh(`head -c ${LENGTH} /dev/urandom > ${place}/f`)
    expect(await blocksOf(sparse)).toBe(LENGTH / 512)
  })

  /** A program tells it by `du`, a copy and an archive by what they take. */
  async function expectHoles(path: string): Promise<void> {
    expect(await blocksOf(path)).toBeLessThan(FEW_BLOCKS)
    const [copy, archive] = [join(bench.dir, 'copy'), join(bench.dir, 'tar')]
    await execa('cp', ['--sparse=auto', path, copy])
    expect(await blocksOf(copy)).toBeLessThan(FEW_BLOCKS)
    await execa('cmp', [path, copy])
    await execa('tar', ['-S', '-C', dirname(path), '-cf', archive, basename(path)])
    expect((await stat(archive)).size).toBeLessThan(FEW_BLOCKS * 512)
    await execa('tar', ['-C', bench.dir, '-xf', archive])
    await execa('cmp', [path, join(bench.dir, basename(path))])
  }
})
