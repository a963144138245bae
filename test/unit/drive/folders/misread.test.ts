import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ROOT } from '../../../../src/drive/tree/nodes.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'
import { HostileService } from '../../../support/hostile-service.ts'
import { rawZip } from '../../zip/support.ts'

const zipOf = (...names: readonly string[]): Buffer =>
  rawZip(names.map((name) => ({ name, content: name.repeat(9) })))

describe('a folder whose zip has not the listed size, moved into another folder', () => {
  let dir: string
  let service: HostileService
  let user: DriveInProcess
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-misread-'))
    service = await HostileService.start()
    service.put('F', zipOf('one', 'two', 'three'))
  })
  afterEach(async () => {
    await user.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const start = async (): Promise<void> => {
    const { url, token } = service
    user = await DriveInProcess.open({ url, token, dir: join(dir, 'state'), writeBack: true })
    await user.drive.makeDirectory(ROOT, 'H', 0o755)
  }
  const move = async (): Promise<void> => user.drive.rename(ROOT, 'F', await user.node('H'), 'F')

  /** The listing tells another size than any answer has. */
  const listWrongSizes = (): void => {
    const body = (sound: Buffer): string => sound.toString().replaceAll('"size":', '"size":1')
    service.harm({ body }, Infinity, ({ endpoint }) => endpoint === 'list')
  }

  it('stays when it was read from another zip that came in its place', async () => {
    const headers = { 'content-type': 'application/octet-stream' }
    const harm = { headers, body: zipOf('one', 'two') }
    listWrongSizes()
    service.harm(harm, Infinity, ({ endpoint }) => endpoint === 'download')
    await start()
    expect(Object.keys(await user.tree())).toEqual(['F/one', 'F/two', 'H'])
    // From now on what comes is what is stored.
    service.well()
    listWrongSizes()
    await expect(move()).rejects.toMatchObject({ code: 'corrupt' })
    await user.drain()
    expect(service.losses).toEqual([])
    expect(service.contents('F')).toHaveLength(1)
  })

  it('moves when its zip came twice the same', async () => {
    service.mayLose.add('F')
    listWrongSizes()
    await start()
    await move()
    await user.drain()
    expect(service.contents('F')).toEqual([])
    expect(await user.read('H/F/three')).toBe('three'.repeat(9))
  })

  it('moves when it was read before, and another machine removed it', async () => {
    listWrongSizes()
    await start()
    for (const name of ['one', 'two', 'three']) await user.read(`F/${name}`)
    const [bag] = service.requests.filter(({ endpoint }) => endpoint === 'download')
    service.forget(bag?.bagId ?? '')
    await move()
    expect(await user.read('H/F/three')).toBe('three'.repeat(9))
  })
})
