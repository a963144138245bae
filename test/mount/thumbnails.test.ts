import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, HANGING_MS, type MountedDrive } from '../support/mounted-drive.ts'

const LARGE = 'x'.repeat(3_000_000)
const SMALL = 'x'.repeat(1_000_000)

let bench: Bench

beforeEach(async () => {
  bench = await Bench.start()
})

afterEach(() => bench.close())

/** Reads a file to its end, as a program of this name: what it said on stderr. */
async function readAs(program: string, drive: MountedDrive, name: string): Promise<string> {
  const path = join(bench.dir, program)
  copyFileSync('/bin/cat', path)
  const options = { stdout: 'ignore', reject: false, timeout: HANGING_MS } as const
  return (await execa(path, [join(drive.path, name)], options)).stderr
}

const fetches = (): number =>
  bench.service.events.filter(({ path }) => path.includes('/bag/download/')).length

describe.runIf(canMount())('a drive', () => {
  it('opens no large file for a program that makes thumbnails, until it is here', async () => {
    await bench.service.upload('film.bin', LARGE)
    const drive = await bench.mount()
    for (const program of ['tumblerd', 'gdk-pixbuf-thumbnailer', 'totem-video-thumbnailer']) {
      expect(await readAs(program, drive, 'film.bin')).toContain('Operation not permitted')
    }
    expect(fetches()).toBe(0)
    expect(await readAs('viewer', drive, 'film.bin')).toBe('')
    expect(await readAs('tumblerd', drive, 'film.bin')).toBe('')
  })

  it('opens files of up to --thumbnails for it', async () => {
    await bench.service.upload('small.bin', SMALL)
    const drive = await bench.mount('--thumbnails', '1MB')
    expect(await readAs('tumblerd', drive, 'small.bin')).toBe('')
    const other = await bench.mountOther('--thumbnails', '0')
    expect(await readAs('tumblerd', other, 'small.bin')).toContain('Operation not permitted')
  })

  it('fetches no large file of a folder for it', async () => {
    const drive = await bench.mount()
    await drive.sh('mkdir Album; head -c 3000000 /dev/urandom > Album/film.bin')
    expect(await bench.bagfs(['sync', drive.path])).toMatchObject({ code: 0 })
    expect(await readAs('tumblerd', drive, 'Album/film.bin')).toBe('')
    const other = await bench.mountOther()
    expect(await readAs('tumblerd', other, 'Album/film.bin')).toContain('Operation not permitted')
    expect(await readAs('viewer', other, 'Album/film.bin')).toBe('')
  })
})
