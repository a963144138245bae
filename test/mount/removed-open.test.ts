import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { deferred } from '../../src/domain/deferred.ts'
import { canMount } from '../support/fuse.ts'
import { Bench, type MountedDrive } from '../support/mounted-drive.ts'
import { OpenFile } from '../support/open-file.ts'

describe.runIf(canMount())('a folder with an open file that was removed from it', () => {
  let bench: Bench
  let drive: MountedDrive
  let open: OpenFile | undefined
  beforeEach(async () => {
    bench = await Bench.start()
    drive = await bench.mount()
    await drive.sh('mkdir F; echo kept > F/kept')
    open = await OpenFile.open(join(drive.path, 'F/open'), 'os.O_CREAT | os.O_RDWR')
    await open.write('before')
    await drive.sh('rm F/open F/kept')
  })
  afterEach(async () => {
    open?.end()
    await bench.close()
  })

  it('is not removed before it is closed, and the program goes on with it', async () => {
    expect((await drive.fails('rmdir F')).stderr).toContain('not empty')
    await drive.sh('mkdir G')
    expect((await drive.fails('mv -T G F')).stderr).toContain('not empty')
    expect(await open?.writeAt(6, ' and after')).toBe('ok 10')
    expect(await open?.read()).toBe('before and after')
    expect(await open?.truncate(6)).toBe('ok None')
    expect(await open?.close()).toBe('ok None')
    await expect.poll(() => drive.sh('rmdir F; ls')).toBe('G\n')
  })

  it('gets another name, and the program goes on with it', async () => {
    await drive.sh('mv F G')
    expect(await open?.writeAt(6, ' and after')).toBe('ok 10')
    expect(await open?.truncate(10)).toBe('ok None')
    expect(await open?.read()).toBe('before and')
    expect((await drive.fails('rmdir G')).stderr).toContain('not empty')
    expect(await open?.close()).toBe('ok None')
    await expect.poll(() => drive.sh('rmdir G; ls')).toBe('')
  })

  it('goes into another folder, and the program goes on with it', async () => {
    await drive.sh('mkdir G; mv F G/F')
    expect(await open?.writeAt(6, ' and after')).toBe('ok 10')
    expect(await open?.sync()).toBe('ok None')
    expect(await open?.truncate(10)).toBe('ok None')
    expect(await open?.read()).toBe('before and')
    expect(await open?.close()).toBe('ok None')
    await expect.poll(() => drive.sh('rmdir G/F G; ls')).toBe('')
  })
})

describe.runIf(canMount())('a file that was opened before it was stored', () => {
  let bench: Bench
  let drive: MountedDrive
  let open: OpenFile | undefined
  let letUploadsPass: () => void
  beforeEach(async () => {
    bench = await Bench.start()
    drive = await bench.mount('--write-back')
    const { promise, resolve } = deferred()
    letUploadsPass = resolve
    bench.service.proxy.add({ match: { method: 'POST' }, fault: { before: () => promise } })
    await drive.sh('printf before > file')
    open = await OpenFile.open(join(drive.path, 'file'), 'os.O_RDWR')
  })
  afterEach(async () => {
    open?.end()
    await bench.close()
  })

  it.each(['rm file', 'printf other > new; mv new file'])(
    'is written on by the program that has it open after: %s',
    async (command) => {
      await drive.sh(command)
      letUploadsPass()
      await expect.poll(() => stagedIn(bench.stateDir)).toEqual([])
      expect(await open?.writeAt(6, ' and after')).toBe('ok 10')
      expect(await open?.read()).toBe('before and after')
      expect(await open?.close()).toBe('ok None')
    },
  )
})

/** Staged content that waits for the service. */
function stagedIn(stateDir: string): readonly string[] {
  const files = readdirSync(stateDir, { recursive: true, encoding: 'utf8' })
  return files.filter((path) => /outbox\/v1\/\d+\/content$/.test(path))
}
