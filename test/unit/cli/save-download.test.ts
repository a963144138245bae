import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { AccountAccess } from '../../../src/cli/account.ts'
import { beginDownload, contentOf } from '../../../src/cli/begin-download.ts'
import { beliefIn, saveDownload } from '../../../src/cli/save-download.ts'
import { Silence } from '../../../src/content/silence.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { toBagId, type BagId } from '../../../src/domain/ids.ts'
import { silentLogger } from '../../../src/domain/logger.ts'
import { createHttpService } from '../../../src/service/http-service.ts'
import { HostileService } from '../../support/hostile-service.ts'

const SILENCE_MS = 600
const CONTENT = 'content '.repeat(100_000)

describe('a download of a command whose content drips', () => {
  let dir: string
  let hostile: HostileService
  let access: AccountAccess
  let bagId: BagId
  beforeEach(async () => {
    dir = mkdtempSync(join(tmpdir(), 'bagfs-save-'))
    hostile = await HostileService.start()
    bagId = toBagId(hostile.put('file', CONTENT))
    const { url, token } = hostile
    const base = { clock: systemClock, log: silentLogger }
    const service = createHttpService(base, { baseUrl: url, token, retries: 0 })
    const signal = new AbortController().signal
    access = { service, log: silentLogger, signal, silenceMs: SILENCE_MS }
  })
  afterEach(async () => {
    await access.service.close()
    await hostile.close()
    rmSync(dir, { recursive: true, force: true })
  })

  const drip = (times: number, dripAfter: number): void => {
    const headers = { 'content-type': 'application/octet-stream' }
    hostile.harm({ headers, dripMs: 20, dripAfter }, times, ({ endpoint }) => {
      return endpoint === 'download'
    })
  }
  const save = async (): Promise<number> => {
    const wanted = { bagId, size: CONTENT.length }
    const saved = await saveDownload(access, wanted, join(dir, 'saved'), () => undefined)
    return saved.length
  }

  it.each([0, 100_000])(
    'ends with an error when it is saved, after %s bytes',
    async (dripAfter) => {
      drip(Infinity, dripAfter)
      await expect(save()).rejects.toMatchObject({ code: 'timed-out' })
    },
  )

  it('ends with an error when it goes to stdout', async () => {
    drip(Infinity, 100_000)
    const silence = new Silence(systemClock, access.silenceMs)
    const download = await beginDownload(access, bagId, {
      belief: beliefIn(CONTENT.length),
      silence,
    })
    const read = async (): Promise<void> => {
      for await (const chunk of contentOf(download, silence))
        expect(chunk.length).toBeGreaterThan(0)
    }
    await expect(read()).rejects.toMatchObject({ code: 'timed-out' })
  })

  it('is not held against it while what takes the content is slow', async () => {
    const silence = new Silence(systemClock, access.silenceMs)
    const download = await beginDownload(access, bagId, {
      belief: beliefIn(CONTENT.length),
      silence,
    })
    let length = 0
    let pauses = 0
    for await (const chunk of contentOf(download, silence)) {
      length += chunk.length
      if (pauses < 2) await systemClock.sleep(SILENCE_MS)
      pauses += 1
    }
    expect(length).toBe(CONTENT.length)
  })
})
