import { randomBytes } from 'node:crypto'
import { mkdtempSync, readSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { HandleId } from '../../../src/domain/ids.ts'
import type { DiskSpan, ShareRange } from '../../../src/drive/tree/share-range.ts'
import { DriveInProcess } from '../../support/drive-in-process.ts'
import { TestService } from '../../support/mounted-drive.ts'

const PROBE_BYTES = 64 << 10
const CONTENT = randomBytes(200_001)

describe.each(['', 'd/'])('blocks of a file that is copied within %j', (place) => {
  let dir: string
  let service: TestService
  let home: DriveInProcess
  let asked: DiskSpan[]
  let source: HandleId
  let target: HandleId
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-share-'))
    service = await TestService.start(join(dir, 'service'), { capacityBytes: 1_000_000 })
    const { url } = service.proxy
    const { token } = service
    home = await DriveInProcess.open({ url, token, dir: join(dir, 'state'), writeBack: true })
    if (place !== '') await home.drive.makeDirectory((await home.parent('d')).parent, 'd', 0o755)
    await home.write(`${place}source`, CONTENT)
    asked = []
    source = await home.open(`${place}source`)
    const { parent, name } = await home.parent(`${place}target`)
    target = (await home.drive.create(parent, name, 0o644)).handle
  })
  afterEach(async () => {
    await home.drop()
    await service.close()
    rmSync(dir, { recursive: true, force: true })
  })

  /** A disk that shares, up to so many calls; the one after that changes half of it, and is refused. */
  const disk =
    (most: number): ShareRange =>
    (from, to) => {
      asked.push(from)
      const isRefused = asked.length > most
      const bytes = Buffer.alloc(isRefused ? from.length >> 1 : from.length, 'spoilt')
      if (!isRefused) readSync(from.fd, bytes, 0, bytes.length, from.offset)
      writeSync(to.fd, bytes, 0, bytes.length, to.offset)
      return !isRefused
    }

  async function copy(share: ShareRange, offset = 0): Promise<number> {
    const from = { handle: source, offset }
    return home.drive.copyRange(from, { handle: target, offset: 0 }, 2 ** 40, share)
  }

  async function expectTarget(content: Buffer): Promise<void> {
    const node = home.drive.nodeOf(target)
    expect(node && (await home.drive.getAttributes(node)).size).toBe(content.length)
    await home.drive.flush(target)
    await home.drive.release(target)
    const handle = await home.open(`${place}target`)
    const found = Buffer.alloc(CONTENT.length + 1)
    const count = await home.drive.read(handle, found, 0)
    expect(found.subarray(0, count).equals(content)).toBe(true)
    await home.drive.release(handle)
    await home.drive.release(source)
    await home.drain()
    if (place === '') expect((await service.contentOf('target')).equals(content)).toBe(true)
  }

  it('are shared where the disk can: a first piece, then all that is left', async () => {
    expect(await copy(disk(2))).toBe(CONTENT.length)
    const lengths = asked.map(({ length }) => length)
    expect(lengths).toEqual([PROBE_BYTES, CONTENT.length - PROBE_BYTES])
    await expectTarget(CONTENT)
  })

  it.each([0, 1])('are copied where the disk shares none after %d pieces', async (most) => {
    expect(await copy(disk(most), 7)).toBe(CONTENT.length - 7)
    expect(asked).toHaveLength(most + 1)
    await expectTarget(CONTENT.subarray(7))
  })

  it('are shared no farther than the account has room', async () => {
    await home.drive.space.report()
    const to = { handle: target, offset: 700_000 }
    const copied = home.drive.copyRange({ handle: source, offset: 0 }, to, 2 ** 40, disk(2))
    await expect(copied).rejects.toMatchObject({ code: 'no-space' })
    expect(asked.length).toBeLessThan(2)
    // Half a file.
    await home.drive.release(target).catch(() => undefined)
    await home.drive.release(source)
  })
})
