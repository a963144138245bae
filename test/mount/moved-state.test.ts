import { rename } from 'node:fs/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'
import { registryIn } from '../support/places.ts'

describe.runIf(canMount())('the status of a drive', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(() => bench.close())

  it('says of a drive whose state directory was moved that it runs, and not that all is stored', async () => {
    const drive = await bench.mount('--write-back')
    const heal = bench.service.proxy.add({
      match: { method: 'POST', path: /upload$/ },
      fault: { answer: { status: 503, body: 'later' } },
    })
    await drive.sh('echo waits > a.txt')
    const moved = `${bench.stateDir}.moved`
    const { stateDir } = (await registryIn(bench.dir).find(drive.path)) ?? {}
    await rename(String(stateDir), moved)
    const told = await bench.bagfs(['status', bench.mountpoint])
    expect(told).toMatchObject({ code: 1, stderr: '' })
    expect(told.stdout).toContain('(runs, and its state directory is not where it was)')
    expect(told.stdout).toContain(`To do:    put ${String(stateDir)} back`)
    expect(told.stdout).not.toContain('is stored')
    expect(await bench.bagfs(['sync'])).toEqual({ code: 1, stdout: '', stderr: told.stdout })
    const left = await bench.bagfs(['umount', bench.mountpoint])
    expect(left).toMatchObject({ code: 2, stdout: '' })
    expect(left.stderr).toContain('runs, and its state directory is not where it was.')
    await rename(moved, String(stateDir))
    heal()
    expect(await bench.bagfs(['sync', bench.mountpoint])).toMatchObject({ code: 0 })
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'waits\n' })
  })
})
