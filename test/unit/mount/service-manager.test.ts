import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import { ServiceManager } from '../../../src/mount/service-manager.ts'
import { NotifySocket } from '../../support/notify-socket.ts'

let directory = ''
let socket: NotifySocket | undefined

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'bagfs-notify-'))
})

afterEach(async () => {
  socket?.close()
  socket = undefined
  await rm(directory, { recursive: true })
})

test.each([['in a directory'], ['that is abstract']])(
  'the service manager is told by a socket %s that the drive is ready and that it leaves',
  async (kind) => {
    const path = join(directory, 'notify')
    const address = kind === 'that is abstract' ? `@${path}` : path
    socket = await NotifySocket.listen(address)
    const manager = await ServiceManager.open(address)
    manager.ready(silentLogger, 'Mounted at /mnt/ä')
    manager.stopping(silentLogger, 'Leaving.')
    manager.stopping(silentLogger, 'Leaving.')
    manager.stopping(silentLogger, 'Leaving: 1 change waits,\n5 kB.')
    const heard = [
      'READY=1\nSTATUS=Mounted at /mnt/ä',
      'STOPPING=1\nSTATUS=Leaving.',
      'STATUS=Leaving: 1 change waits, 5 kB.',
    ]
    await expect.poll(() => socket?.messages).toEqual(heard)
  },
)

test('a service manager that does not listen is told of in the log, and harms nothing', async () => {
  const manager = await ServiceManager.open(join(directory, 'nothing'))
  const warned: unknown[] = []
  manager.ready({ ...silentLogger, warn: (fields) => warned.push(fields) }, 'Mounted.')
  expect(warned).toEqual([{ error: expect.stringContaining('ENOENT') as string }])
})

test('an address that is too long for a socket is refused', async () => {
  await expect(ServiceManager.open(`/${'x'.repeat(107)}`)).rejects.toMatchObject({ code: 'usage' })
})
