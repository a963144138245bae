import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { silentLogger } from '../../../../src/domain/logger.ts'
import { startLocalService, type LocalService } from '../../../../src/local-service/server.ts'
import { AccountInProcess } from '../../../support/account-in-process.ts'
import { DriveInProcess } from '../../../support/drive-in-process.ts'

const LENGTH = 600_000
/** A zip with an uncompressed entry, one byte of which was changed after its checksum was made. */
const MAKE_ZIP = `
import io, sys, zipfile
out = io.BytesIO()
with zipfile.ZipFile(out, 'w') as z: z.writestr('entry', 'a' * ${LENGTH})
sys.stdout.buffer.write(out.getvalue().replace(b'aaaa', b'aaba', 1))`

let dir: string
let service: LocalService
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'bagfs-damaged-entry-'))
  const dataDir = join(dir, 'service')
  service = await startLocalService({ dataDir, tokens: ['token'] }, { log: silentLogger })
})
afterEach(async () => {
  await service.close()
  rmSync(dir, { recursive: true, force: true })
})

it('the content of an open file that was found wrong is given to no later read of it', async () => {
  const { stdout } = await execa('python3', ['-c', MAKE_ZIP], { encoding: 'buffer' })
  const form = new FormData()
  form.append('file', new Blob([new Uint8Array(stdout)]), 'Bad')
  form.append('description', '')
  const headers = { authorization: 'Bearer token' }
  await fetch(`${service.url}/api/files/upload`, { method: 'POST', body: form, headers })
  const home = { url: service.url, token: 'token', dir: join(dir, 'state'), writeBack: false }
  const drive = await DriveInProcess.open(home)
  try {
    const isFolder = async (): Promise<boolean> =>
      (await drive.node('Bad/entry').catch(() => undefined)) !== undefined
    await expect.poll(isFolder).toBe(true)
    const handle = await drive.open('Bad/entry')
    const read = async (length: number): Promise<number> =>
      drive.drive.read(handle, Buffer.alloc(length), 0)
    await expect(read(LENGTH)).rejects.toMatchObject({ code: 'corrupt' })
    await expect(read(4_096)).rejects.toMatchObject({ code: 'corrupt' })
    await drive.drive.release(handle)
  } finally {
    await drive.drop()
  }
})

/** The record of the only entry in the directory of the zip tells a size of 0 (APPNOTE.TXT 4.3.12). */
const MAKE_EMPTY = `
import io, struct, sys, zipfile
out = io.BytesIO()
with zipfile.ZipFile(out, 'w', zipfile.ZIP_DEFLATED) as z: z.writestr('entry', 'content')
data = bytearray(out.getvalue())
at = data.rindex(b'PK\\x01\\x02')
data[at + 24:at + 28] = struct.pack('<L', 0)
sys.stdout.buffer.write(data)`

it('an entry that tells no bytes and a sum of some is an error when it is opened', async () => {
  const account = await AccountInProcess.start()
  const { stdout } = await execa('python3', ['-c', MAKE_EMPTY], { encoding: 'buffer' })
  await account.service.upload('Bad', stdout)
  const user = await account.open()
  await expect.poll(() => user.names('Bad').catch(String)).toEqual(['entry'])
  await expect(user.open('Bad/entry')).rejects.toMatchObject({ code: 'corrupt' })
  await user.write('Bad/entry', 'whole')
  expect(await user.read('Bad/entry')).toBe('whole')
})
