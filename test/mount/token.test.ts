import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, relative } from 'node:path'
import { execa } from 'execa'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { canMount } from '../support/fuse.ts'
import { Bench, HANGING_MS, OTHER_TOKEN } from '../support/mounted-drive.ts'
import { PROGRAM } from '../support/service-process.ts'
import { placesIn } from '../support/places.ts'

const NEW_TOKEN = 'a-new-token-0123456789'

describe.runIf(canMount())('a token that expires while the drive is mounted', () => {
  let bench: Bench
  /** What the front takes for the account's token. */
  let valid: string
  let file: string
  let url: string
  let stopFront: () => void
  const mount = async (): Promise<number | undefined> =>
    (
      await bench.mountBy(
        ...['--url', url, '--write-back', '--log-level', 'debug'],
        // The process of the drive is in another directory.
        ...['--token-file', relative('.', file)],
      )
    ).code
  beforeEach(async () => {
    bench = await Bench.start()
    valid = bench.service.token
    file = join(bench.dir, 'own-token')
    writeFileSync(file, valid, { mode: 0o600 })
    await bench.service.upload('old.txt', Buffer.from('old\n'))
    url = await startFront()
    expect(await mount()).toBe(0)
  })
  afterEach(async () => {
    await bench.bagfs(['umount', '--now', bench.mountpoint])
    await bench.close()
  })

  /** Before the service: knows the account by `valid`, and the other account by its own token. */
  const startFront = async (): Promise<string> => {
    const { hostname, port } = new URL(bench.service.local.url)
    const forward = (incoming: IncomingMessage, response: ServerResponse): void => {
      const given = incoming.headers.authorization ?? ''
      const authorization = given === `Bearer ${valid}` ? `Bearer ${bench.service.token}` : given
      const isRefused = given === `Bearer ${bench.service.token}` && valid !== bench.service.token
      const headers = {
        ...incoming.headers,
        authorization: isRefused ? 'Bearer no' : authorization,
        'x-authorization': 'no',
      }
      const { method, url: path } = incoming
      const outgoing = request({ hostname, port, method, path, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
      })
      outgoing.on('error', () => response.destroy())
      incoming.pipe(outgoing)
    }
    const server = createServer(forward)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    stopFront = () => {
      server.closeAllConnections()
      server.close()
    }
    onTestFinished(stopFront)
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  const sh = async (command: string): Promise<string> => {
    const options = {
      cwd: bench.mountpoint,
      timeout: HANGING_MS,
      reject: false,
      all: true,
    } as const
    return (await execa('bash', ['-ec', command], options)).all
  }

  const log = (): string => {
    const logs = join(bench.stateDir, 'logs')
    return readdirSync(logs)
      .map((name) => readFileSync(join(logs, name), 'utf8'))
      .join('')
  }

  it('is read anew from its file, and what waited for it goes out', async () => {
    valid = NEW_TOKEN
    await sh('echo new > new.txt')
    await expect
      .poll(() => sh('getfattr --only-values -n user.bagfs.state new.txt'))
      .toContain('failed')
    writeFileSync(file, `${NEW_TOKEN}\n`, { mode: 0o600 })
    expect(await sh('cat old.txt')).toBe('old')
    await expect.poll(async () => (await bench.service.list()).length).toBe(2)
    expect(log()).toContain('There is a new token')
    await sh(`stat ${NEW_TOKEN} || true`)
    await expect.poll(log).toContain('/[hidden]')
    expect(log()).not.toContain(NEW_TOKEN)
  })

  it('gives way to one that a mount without network knows, too', async () => {
    valid = NEW_TOKEN
    writeFileSync(file, `${NEW_TOKEN}\n`, { mode: 0o600 })
    expect(await sh('cat old.txt')).toBe('old')
    expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
    stopFront()
    expect(await mount()).toBe(0)
    expect(await sh('cat old.txt')).toBe('old')
  })

  it('is not replaced by the token of another account', async () => {
    valid = NEW_TOKEN
    writeFileSync(file, OTHER_TOKEN, { mode: 0o600 })
    await sh('echo new > new.txt')
    await expect.poll(log).toContain('the token of another account')
    expect(await sh('getfattr --only-values -n user.bagfs.state new.txt')).not.toBe('stored')
    expect(await bench.service.list()).toHaveLength(1)
    expect(log()).not.toContain(OTHER_TOKEN)
  })
})

describe.runIf(canMount())('a token in the environment', () => {
  // Under strace a signal of a program that ended may reach a thread of libfuse that is just being ended, and libuv waits for
  // it for ever. So the drive over fuse-native starts none to unmount; the other one does, by the same code.
  it.each([
    ['fuse-native', /ldconfig/],
    ['dev-fuse', /mount[^]*fusermount/],
  ])('is inherited by no program that is started (%s)', async (bridge, programs) => {
    const bench = await Bench.start()
    onTestFinished(() => bench.close())
    const trace = join(bench.dir, 'trace')
    const mount = ['mount', bench.mountpoint, '--foreground', '--url', bench.service.local.url]
    const drive = execa(
      'strace',
      [
        ...['-f', '-v', '-s', '4096', '-e', 'trace=execve', '-o', trace, process.execPath, PROGRAM],
        ...[...mount, '--bridge', bridge, '--state-dir', bench.stateDir, '--min-free', '1MB'],
      ],
      {
        env: {
          ...placesIn(bench.dir),
          BAGFS_TOKEN: bench.service.token,
          OPENFILES_API_TOKEN: OTHER_TOKEN,
        },
        reject: false,
        timeout: HANGING_MS,
      },
    )
    const status = async (): Promise<unknown> =>
      (await bench.bagfs(['status', bench.mountpoint])).code
    await expect.poll(status).toBe(0)
    if (bridge === 'fuse-native') await execa('fusermount', ['-u', bench.mountpoint])
    else expect((await bench.bagfs(['umount', bench.mountpoint])).code).toBe(0)
    expect(await drive).toMatchObject({ exitCode: 0 })
    const [own = '', ...started] = readFileSync(trace, 'utf8')
      .split('\n')
      .filter((line) => line.includes('execve('))
    expect(own).toContain(bench.service.token)
    expect(started.join('\n')).toMatch(programs)
    for (const secret of [bench.service.token, OTHER_TOKEN]) {
      expect(started.filter((line) => line.includes(secret))).toEqual([])
    }
  })
})
