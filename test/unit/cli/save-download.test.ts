import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
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
import type { HostileAnswer } from '../../support/hostile-answer.ts'
import { HostileService, type Asked } from '../../support/hostile-service.ts'

const SILENCE_MS = 600
const CONTENT = 'content '.repeat(100_000)

describe('a download of a command', () => {
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
    hostile.harm({ headers, dripMs: 20, dripAfter }, times, isDownload)
  }
  const save = async (): Promise<number> => {
    const wanted = { bagId, size: CONTENT.length }
    const saved = await saveDownload(access, wanted, join(dir, 'saved'), () => undefined)
    return saved.length
  }

  const isDownload = ({ endpoint }: Asked): boolean => endpoint === 'download'
  const TEXT = { 'content-type': 'application/octet-stream' }
  const PAGE = { 'content-type': 'text/html' }

  it.each<[string, number, HostileAnswer]>([
    ['a page', 2, { headers: PAGE, body: '<html>log in</html>', end: 'chunks' }],
    ['other content', 1, { headers: TEXT, body: 'x'.repeat(300_000), end: 'chunks' }],
    ['longer content', 1, { headers: TEXT, body: 'x'.repeat(900_000), end: 'chunks' }],
    [
      'a part of other content',
      2,
      { headers: TEXT, body: 'x'.repeat(800_000), closeAfter: 300_000 },
    ],
    ['a part of its own', 2, { headers: TEXT, closeAfter: 300_000 }],
  ])('has nothing of what came before it: %s, %s times', async (_, times, answer) => {
    access = { ...access, silenceMs: 20 * SILENCE_MS }
    hostile.harm(answer, times, isDownload)
    expect(await save()).toBe(CONTENT.length)
    expect(readFileSync(join(dir, 'saved'), 'utf8')).toBe(CONTENT)
  })

  it('goes on near the place where it was cut', async () => {
    hostile.harm({ headers: TEXT, closeAfter: 300_000 }, 1, isDownload)
    const seen: number[] = []
    const wanted = { bagId, size: CONTENT.length }
    await saveDownload(access, wanted, join(dir, 'saved'), (length) => seen.push(length))
    const back = seen.findIndex((length, at) => length < (seen[at - 1] ?? 0))
    expect(back === -1 || (seen[back] ?? 0) > 200_000).toBe(true)
    expect(hostile.downloads).toBe(2)
  })

  it('of a length that nothing else tells is believed when all of it came twice the same', async () => {
    access = { ...access, silenceMs: 20 * SILENCE_MS }
    const other = { headers: TEXT, body: 'x'.repeat(300_000), end: 'chunks' as const }
    const changed = { ...other, body: `y${'x'.repeat(299_999)}` }
    hostile.harm(changed, 1, isDownload)
    hostile.harm(other, 2, isDownload)
    const wanted = { bagId, size: undefined }
    await saveDownload(access, wanted, join(dir, 'saved'), () => undefined)
    expect(readFileSync(join(dir, 'saved'), 'utf8')).toBe(other.body)
  })

  it.each([0, 100_000])(
    'that drips ends with an error when it is saved, after %s bytes',
    async (dripAfter) => {
      drip(Infinity, dripAfter)
      await expect(save()).rejects.toMatchObject({ code: 'timed-out' })
    },
  )

  it('that drips ends with an error when it goes to stdout', async () => {
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

  it('is in time though what takes the content is slow', async () => {
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
