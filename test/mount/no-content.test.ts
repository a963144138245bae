import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import type { Fault } from '../support/fault-proxy.ts'
import { canMount } from '../support/fuse.ts'
import { Bench } from '../support/mounted-drive.ts'

const DOWNLOAD = { path: /download/ }
const FAILED = /Input\/output error/

let bench: Bench
beforeEach(async () => {
  bench = await Bench.start()
})
afterEach(async () => {
  await bench.close()
})

const DETAIL = JSON.stringify({ detail: 'Storage is not ready.' })
const JSON_TYPE = 'application/json'
const answerOf = (type: string, body: string, more: Record<string, string> = {}): Fault => ({
  answer: { status: 200, headers: { 'content-type': type, ...more }, body },
})
const withLength = (body: string): Record<string, string> => ({
  'content-length': String(Buffer.byteLength(body)),
})
const PAGE = `<!doctype html><title>Log in</title>${'<p>Hello.</p>'.repeat(9_000)}`

/** What a service, or a network before it, answers with status 200 in place of content. */
const ANSWERS: readonly { readonly what: string; readonly fault: Fault }[] = [
  { what: 'an error as JSON', fault: answerOf(JSON_TYPE, DETAIL, withLength(DETAIL)) },
  { what: 'a long page without a length', fault: answerOf('text/html; charset=utf-8', PAGE) },
  {
    what: 'an error as JSON that names a file',
    fault: answerOf(JSON_TYPE, DETAIL, {
      ...withLength(DETAIL),
      'content-disposition': 'attachment; filename="read.bin"',
    }),
  },
]

const NAMES = ['read.bin', 'renamed.bin', 'longer.bin', 'moved.bin', 'probed', 'changed', 'put.bin']

describe.runIf(canMount())('an answer that is no content', () => {
  it.each(ANSWERS)(
    'takes the place of none, and none is deleted for it: $what',
    async ({ fault }) => {
      const { service } = bench
      const contents = new Map(NAMES.map((name) => [name, randomBytes(150_000)]))
      for (const [name, content] of contents) await service.upload(name, content)
      const drive = await bench.mount('--timeout', '2s', '--folder-settle', '100ms')
      await drive.sh('mkdir F; echo in > F/in.txt')
      await expect.poll(() => service.uploads().length).toBe(NAMES.length + 1)
      const before = service.deletes()
      const remove = service.proxy.add({ match: DOWNLOAD, fault })
      await drive.sh('ls -l')
      const changes = [
        ...['cat read.bin >/dev/null', 'head -c 10 read.bin', 'mv renamed.bin new.bin'],
        ...['echo more >>longer.bin', 'mv moved.bin F/', 'echo more >>changed', 'mv probed new'],
        ...[
          "python3 -c \"f = open('put.bin', 'r+'); f.write('x'); f.close()\"",
          'cp read.bin ../copy.bin',
        ],
      ]
      await Promise.all(
        changes.map(async (change) => {
          expect((await drive.fails(change)).stderr, change).toMatch(FAILED)
        }),
      )
      expect(service.deletes()).toBe(before)
      remove()
      // The first reader after a service that lied may be told that the content changed.
      for (const [name, content] of contents) {
        await expect.poll(() => drive.sh(`cat ${name} >/dev/null && echo read`)).toBe('read\n')
        expect(await drive.sh(`stat -c %s ${name}`)).toBe('150000\n')
        expect((await service.contentOf(name)).equals(content), name).toBe(true)
        writeFileSync(join(bench.dir, 'expected'), content)
        await drive.sh(`cmp ${name} ${join(bench.dir, 'expected')}`)
      }
    },
  )

  it('is told from files that are of the same type', async () => {
    const { service } = bench
    const json = JSON.stringify({ detail: 'x'.repeat(5_000) })
    const page = `<html>${'x'.repeat(5_000)}`
    const drive = await bench.mount('--listing-ttl', '50ms')
    for (const noLength of [false, true]) {
      const content = `${page}${noLength}`
      await service.upload('data.json', json)
      await service.upload('page.html', content)
      await expect.poll(() => drive.sh('ls')).toBe('data.json\npage.html\n')
      const type = { 'content-disposition': '', 'content-type': JSON_TYPE }
      service.proxy.add({ match: DOWNLOAD, fault: { noLength, headers: type } })
      expect(await drive.sh('cat data.json')).toBe(json)
      await drive.sh('mv page.html moved.html; echo more >>data.json')
      service.proxy.clear()
      const stored = { 'data.json': `${json}more\n`, 'moved.html': content }
      await expect.poll(() => service.contents().catch(String)).toEqual(stored)
      await drive.sh('rm *')
    }
  })
})

describe.runIf(canMount())('content of another size than is listed', () => {
  it('takes the place of a bag when all of it came twice the same, and else nothing is deleted', async () => {
    const { service } = bench
    const names = ['renamed.bin', 'longer.bin', 'moved.bin']
    const contents = new Map(names.map((name) => [name, randomBytes(300_000)]))
    for (const [name, content] of contents) await service.upload(name, content)
    const listed = (await service.list()).map((record) => ({ ...record, size: 299_999 }))
    const headers = { 'content-type': JSON_TYPE }
    const answer = { status: 200, headers, body: JSON.stringify(listed) }
    const relist = service.proxy.add({ match: { path: /files_list/ }, fault: { answer } })
    // Each answer begins at the start, and so has the same byte wrong.
    const fault = { noRanges: true, wrongByteAt: 200_000 }
    const remove = service.proxy.add({ match: DOWNLOAD, fault })
    const drive = await bench.mount()
    await drive.sh('mkdir F; cat *.bin >/dev/null')
    remove()
    const changes = ['mv renamed.bin new.bin', 'echo more >>longer.bin', 'mv moved.bin F/']
    for (const change of changes) {
      expect((await drive.fails(change)).stderr, change).toMatch(FAILED)
    }
    expect(service.deletes()).toBe(0)
    for (const change of changes) await drive.sh(change)
    relist()
    const content = (name: string): Buffer => contents.get(name) ?? Buffer.of()
    const longer = Buffer.concat([content('longer.bin'), Buffer.from('more\n')])
    expect((await service.contentOf('new.bin')).equals(content('renamed.bin'))).toBe(true)
    expect((await service.contentOf('longer.bin')).equals(longer)).toBe(true)
    writeFileSync(join(bench.dir, 'expected'), content('moved.bin'))
    await drive.sh('cmp F/moved.bin ../expected')
  })
})

describe.runIf(canMount())('a body that ends with the connection, too early', () => {
  it.each([false, true])(
    'is not taken for all of the content (no ranges: %s)',
    async (noRanges) => {
      const { service } = bench
      const names = ['read.bin', 'renamed.bin', 'longer.bin', 'moved.bin']
      const contents = new Map(names.map((name) => [name, randomBytes(300_000)]))
      for (const [name, content] of contents) await service.upload(name, content)
      const drive = await bench.mount()
      await drive.sh('mkdir F')
      const uses = ['cat read.bin >/dev/null', 'mv renamed.bin new.bin', 'echo more >>longer.bin']
      for (const use of [...uses, 'mv moved.bin F/']) {
        const fault = { noRanges, endsWithConnection: { after: 100_000 } }
        const remove = service.proxy.add({ match: DOWNLOAD, times: 1, fault })
        await drive.sh(use)
        remove()
      }
      const content = (name: string): Buffer => contents.get(name) ?? Buffer.of()
      const longer = Buffer.concat([content('longer.bin'), Buffer.from('more\n')])
      expect((await service.contentOf('new.bin')).equals(content('renamed.bin'))).toBe(true)
      expect((await service.contentOf('longer.bin')).equals(longer)).toBe(true)
      for (const [path, bytes] of [
        ['read.bin', content('read.bin')],
        ['F/moved.bin', content('moved.bin')],
      ] as const) {
        writeFileSync(join(bench.dir, 'expected'), bytes)
        await drive.sh(`cmp ${path} ${join(bench.dir, 'expected')}`)
      }
    },
  )
})

it('is not saved by get, which tells it and ends with an error', async () => {
  const { service } = bench
  const content = randomBytes(300_000)
  await service.upload('file.bin', content)
  const token = join(bench.dir, 'token')
  writeFileSync(token, service.token, { mode: 0o600 })
  const account = ['--url', service.proxy.url, '--token-file', token]
  const get = (name: string) =>
    bench.bagfs(['get', 'file.bin', name === '-' ? name : join(bench.dir, name), ...account])
  for (const { fault } of ANSWERS) {
    const remove = service.proxy.add({ match: DOWNLOAD, fault })
    for (const to of ['got.bin', '-']) expect(await get(to)).not.toMatchObject({ code: 0 })
    expect(existsSync(join(bench.dir, 'got.bin'))).toBe(false)
    remove()
  }
  for (const noRanges of [false, true]) {
    const fault = { noRanges, endsWithConnection: { after: 100_000 } }
    service.proxy.add({ match: DOWNLOAD, times: 1, fault })
    expect(await get('got.bin')).toMatchObject({ code: 0 })
    expect(readFileSync(join(bench.dir, 'got.bin')).equals(content)).toBe(true)
  }
  service.proxy.add({ match: DOWNLOAD, times: 1, fault: { endsWithConnection: { after: 100 } } })
  expect(await get('-')).not.toMatchObject({ code: 0 })
})

describe.runIf(canMount())('a body without a length', () => {
  it('leaves the cache its size when it does not end, and lets open go on when it drips', async () => {
    const { service } = bench
    const content = randomBytes(1_000_000)
    await service.upload('endless.bin', content)
    const limit = 20_000_000
    const drive = await bench.mount('--cache-size', String(limit))
    const fault = { endless: { bytesPerSecond: 200_000_000 } }
    const stop = service.proxy.add({ match: DOWNLOAD, fault })
    let most = 0
    const watch = setInterval(() => {
      most = Math.max(most, cacheBytes(bench.stateDir))
    }, 10)
    onTestFinished(() => {
      clearInterval(watch)
    })
    expect((await drive.fails('cat endless.bin >/dev/null')).stderr).toMatch(FAILED)
    expect((await drive.fails('mv endless.bin renamed.bin')).stderr).toMatch(FAILED)
    clearInterval(watch)
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThan(limit + 5_000_000)
    stop()
    service.proxy.add({ match: DOWNLOAD, fault: { endless: { bytesPerSecond: 1_000 } } })
    await drive.sh('exec 3<endless.bin; stat -c %s endless.bin')
    service.proxy.clear()
    await service.proxy.down()
    await service.proxy.up()
    writeFileSync(join(bench.dir, 'expected'), content)
    await expect
      .poll(() => drive.sh('cmp endless.bin ../expected && echo same || true'))
      .toBe('same\n')
    expect(service.deletes()).toBe(0)
  })
})

/** Bytes that the cache has on disk. */
function cacheBytes(stateDir: string): number {
  let bytes = 0
  for (const path of readdirSync(stateDir, { recursive: true, encoding: 'utf8' })) {
    if (!path.includes('/cache/v1/')) continue
    const found = statSync(join(stateDir, path), { throwIfNoEntry: false })
    if (found?.isFile() === true) bytes += found.blocks * 512
  }
  return bytes
}
