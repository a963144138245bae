import { execFile, spawn } from 'node:child_process'
import { writeSync } from 'node:fs'
import {
  chmod,
  lstat,
  mkdir,
  open,
  readdir,
  readFile,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { silentLogger } from '../../../src/domain/logger.ts'
import type { FileRecordWire } from '../../../src/service/wire.ts'
import { startLocalService } from '../../../src/local-service/server.ts'
import type { LocalService } from '../../../src/local-service/server.ts'
import { rawZip } from '../zip/support.ts'
import { BuiltProgram, firstLine } from './built-program.ts'
import type { Outcome } from './built-program.ts'

const TOKEN = 'a-token-of-this-test-0123456789'
const ID = /^[0-9a-f]{64}$/

let program: BuiltProgram
let service: LocalService
let extraRecords: FileRecordWire[] = []
let cwd = ''
let counter = 0

beforeAll(async () => {
  program = await BuiltProgram.build()
  service = await startLocalService(
    { dataDir: join(program.directory, 'data'), tokens: [TOKEN], extraRecords: () => extraRecords },
    { log: silentLogger },
  )
}, 120_000)

afterAll(async () => {
  await service.close()
  await program.remove()
})

beforeEach(async () => {
  extraRecords = []
  counter += 1
  cwd = join(program.directory, `work-${counter}`)
  await mkdir(cwd)
})

const bagfs = (...args: string[]): Promise<Outcome> =>
  program.run(args, { cwd, variables: { BAGFS_URL: service.url, BAGFS_TOKEN: TOKEN } })

/** Uploads content under a name of its own and gives the bag id. */
async function put(name: string, content: string | Uint8Array): Promise<string> {
  await writeFile(join(cwd, name), content)
  const { stdout, exitCode } = await bagfs('put', name)
  expect(exitCode).toBe(0)
  return stdout.trim()
}

describe('a word that cannot be meant is refused in a sentence', () => {
  test.each([
    ['mount', ''],
    ['umount', ''],
    ['status', ''],
    ['explain', ''],
    ['put', ''],
    ['get', 'a'.repeat(64), ''],
    ['mount', 'drive', '--state-dir', ''],
    ['outbox', '--mountpoint', ''],
  ])('an empty path: %s %s %s %s', async (...args) => {
    const outcome = await bagfs(...args)
    expect(outcome).toMatchObject({ exitCode: 2, stdout: '' })
    expect(outcome.stderr).toMatch(/^bagfs: .*an empty word is no path\./i)
  })

  test('a name that would be changed on its way, or show in a code', async () => {
    await writeFile(join(cwd, 'a.txt'), 'content')
    for (const name of ['two\nlines', 'bell\u0007']) {
      const given = await bagfs('put', 'a.txt', '--name', name)
      expect(given.stderr).toContain(`${JSON.stringify(name)} cannot be the name of a bag.`)
      expect(given).toMatchObject({ exitCode: 2, stdout: '' })
    }
    for (const name of ['two\nlines', '.bagfs', '\u201B0A']) {
      const restored = await bagfs('trash', 'restore', 'a.txt', '--as', name)
      expect(restored.stderr).toContain(`A drive cannot show ${JSON.stringify(name)} as it is.`)
      expect(restored).toMatchObject({ exitCode: 1, stdout: '' })
    }
  })
})

describe('a directory that cannot be used ends the program with one sentence', () => {
  const open = async (): Promise<string> => {
    await mkdir(join(cwd, 'open'))
    await chmod(join(cwd, 'open'), 0o777)
    return join(cwd, 'open')
  }

  test('of an embedded service, below /proc', async () => {
    for (const token of [[], ['--token-file', join(cwd, 'token')]]) {
      await writeFile(join(cwd, 'token'), TOKEN, { mode: 0o600 })
      const outcome = await bagfs('serve', '--data', '/proc/x/y', '--port', '0', ...token)
      expect(outcome.stderr).toMatch(/^bagfs: .*\/proc\/x.*\n$/)
      expect(outcome).toMatchObject({ exitCode: 1, stdout: '' })
    }
  })

  test('of an embedded service, where others can change it', async () => {
    const dir = await open()
    await writeFile(join(cwd, 'token'), TOKEN, { mode: 0o600 })
    for (const token of [[], ['--token-file', join(cwd, 'token')]]) {
      const { stderr, exitCode } = await bagfs('serve', '--data', dir, '--port', '0', ...token)
      expect(stderr).toMatch(/^bagfs: .* can be changed by other users of this machine\./)
      expect(exitCode).toBe(2)
      expect(await readdir(dir)).toEqual([])
    }
  })
})

describe('wrong use ends with exit code 2 and one line', () => {
  test.each([
    [['nonsense']],
    [['ls', '--nonsense']],
    [['get']],
    [['rm']],
    [['mount']],
    [['serve']],
    [['mount', '.', '--cache-size', '12q']],
    [['mount', '.', '--listing-ttl', '5']],
    [['mount', '.', '--log-level', 'loud']],
    [['serve', '--data', 'd', '--port', '70000']],
    [['serve', '--data', 'd', '--capacity', 'much']],
  ])('%j', async (args) => {
    const { exitCode, stdout, stderr } = await bagfs(...args)
    expect(exitCode).toBe(2)
    expect(stdout).toBe('')
    expect(stderr).toMatch(/^bagfs: [^\n]+\n$/)
  })

  test.each([
    [['mount', '.', '--local', '--url', 'http://localhost'], '--local and --url'],
    [['mount', '.', '--read-only', '--write-back'], '--read-only and --write-back'],
    [['put', 'a', 'b', '--name', 'c'], '--name'],
    [['put', 'README.md', '--name', 'a/b'], 'a/b'],
    [['import', ' '], 'empty'],
    [['serve', '--data', 'd', '--host', '0.0.0.0'], '0.0.0.0'],
    [['ls', '--url', 'https://example.org:x'], 'URL of a service'],
    [['mount', '.', '--token=abc'], "'--token'"],
  ])('%j says %j', async (args, words) => {
    const { exitCode, stderr } = await bagfs(...args)
    expect(exitCode).toBe(2)
    expect(stderr).toContain(words)
  })
})

test('help and version go to stdout with exit code 0', async () => {
  const help = await bagfs('--help')
  expect(help).toMatchObject({ exitCode: 0, stderr: '' })
  for (const command of ['mount', 'umount', 'serve', 'ls', 'put', 'get', 'rm', 'import', 'df']) {
    expect(help.stdout).toMatch(new RegExp(`^  ${command} `, 'm'))
    await expect(bagfs(command, '--help')).resolves.toMatchObject({ exitCode: 0, stderr: '' })
  }
  const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string }
  await expect(bagfs('--version')).resolves.toMatchObject({ exitCode: 0, stdout: `${version}\n` })
}, 60_000)

test('without URL or token a usage error says how to give one', async () => {
  const noUrl = await program.run(['ls'], { cwd, variables: { BAGFS_TOKEN: TOKEN } })
  expect(noUrl.exitCode).toBe(2)
  expect(noUrl.stderr).toContain('--url')
  const noToken = await program.run(['ls'], { cwd, variables: { BAGFS_URL: service.url } })
  expect(noToken.exitCode).toBe(2)
  expect(noToken.stderr).toContain('--token-file')
})

test('a wrong token has exit code 3 and is not repeated', async () => {
  const variables = { BAGFS_URL: service.url, BAGFS_TOKEN: 'some-wrong-token' }
  const { exitCode, stderr } = await program.run(['ls'], { cwd, variables })
  expect(exitCode).toBe(3)
  expect(stderr).not.toContain('some-wrong-token')
})

test('a service that does not answer has exit code 5', async () => {
  const { exitCode } = await bagfs('ls', '--url', 'http://127.0.0.1:1')
  expect(exitCode).toBe(5)
})

test('a URL that answers with a web page is told apart from a service', async () => {
  const { createServer } = await import('node:http')
  const page = createServer((_request, response) => {
    response.setHeader('content-type', 'text/html')
    response.end('<html><body>Hello</body></html>')
  }).listen(0, '127.0.0.1')
  await once(page, 'listening')
  const { port } = page.address() as { port: number }
  const { exitCode, stderr } = await bagfs('ls', '--url', `http://127.0.0.1:${port}`)
  page.closeAllConnections()
  page.close()
  expect(exitCode).toBe(1)
  expect(stderr).toContain('web page')
})

test('put and rm say what may have been done when the answer is lost', async () => {
  const { createServer } = await import('node:http')
  const id = await put('lost-answer.txt', 'there')
  let deletes = 0
  const cut = createServer((request, response) => {
    const url = `${service.url}${request.url ?? ''}`
    if (request.method === 'GET') {
      const headers = { authorization: `Bearer ${TOKEN}` }
      fetch(url, { headers }).then(
        async (told) => response.end(await told.text()),
        () => response.destroy(),
      )
      return
    }
    if (request.url?.includes('upload') !== true) deletes += 1
    if (deletes > 1) response.writeHead(401).end()
    else request.resume().once('end', () => request.socket.destroy())
  }).listen(0, '127.0.0.1')
  await once(cut, 'listening')
  const { port } = cut.address() as { port: number }
  await writeFile(join(cwd, 'a.txt'), 'a')
  for (const words of [
    ['put', 'a.txt'],
    ['rm', id],
  ]) {
    const { exitCode, stderr } = await bagfs(...words, '--url', `http://127.0.0.1:${port}`)
    expect(exitCode).not.toBe(0)
    expect(stderr).toMatch(
      /\n {2}It may have been done all the same: look with bagfs ls before you try it again\.\s*$/,
    )
  }
  expect(deletes).toBeGreaterThan(1)
  cut.closeAllConnections()
  cut.close()
})

test('a file goes there and back unchanged', async () => {
  const content = Buffer.from(Array.from({ length: 100_000 }, (_none, index) => index % 251))
  const id = await put('data.bin', content)
  expect(id).toMatch(ID)
  await expect(bagfs('get', id, 'copy.bin')).resolves.toMatchObject({ exitCode: 0, stderr: '' })
  expect(await readFile(join(cwd, 'copy.bin'))).toEqual(content)
  expect((await stat(join(cwd, 'copy.bin'))).mode & 0o777).toBe(0o666 & ~0o022)
  const { stdout } = await bagfs('ls', '--json')
  const records = JSON.parse(stdout) as readonly Record<string, unknown>[]
  expect(records).toContainEqual(
    expect.objectContaining({ name: 'data.bin', size: 100_000, bag_id: id, description: '' }),
  )
})

test('get through a link replaces what it leads to, and keeps the link', async () => {
  const id = await put('linked.txt', 'content')
  await mkdir(join(cwd, 'elsewhere'))
  await writeFile(join(cwd, 'elsewhere/target'), 'before')
  await symlink('elsewhere/target', join(cwd, 'link'))
  expect(await bagfs('get', id, 'link')).toMatchObject({ exitCode: 0, stderr: '' })
  expect(await readFile(join(cwd, 'elsewhere/target'), 'utf8')).toBe('content')
  expect((await lstat(join(cwd, 'link'))).isSymbolicLink()).toBe(true)
  await symlink('nothing', join(cwd, 'dangling'))
  const dangling = await bagfs('get', id, 'dangling')
  expect(dangling.exitCode).toBe(4)
  expect(dangling.stderr).toContain('dangling is a link to something that does not exist.')
})

test('get writes into a fifo or a device, and nothing takes its place', async () => {
  const id = await put('piped.txt', 'content')
  await promisify(execFile)('mkfifo', [join(cwd, 'fifo')])
  const [got, content] = await Promise.all([
    bagfs('get', id, 'fifo'),
    readFile(join(cwd, 'fifo'), 'utf8'),
  ])
  expect(got).toMatchObject({ exitCode: 0, stderr: '' })
  expect(content).toBe('content')
  expect((await lstat(join(cwd, 'fifo'))).isFIFO()).toBe(true)
  await symlink('/dev/full', join(cwd, 'full'))
  const full = await bagfs('get', id, 'full')
  expect(full.exitCode).toBe(6)
  expect(full.stderr).toContain('The local disk is full: writing full.')
})

test('get to a stdout that is full says so, with the exit code for it', async () => {
  const id = await put('large.bin', Buffer.alloc(1_000_000, 'x'))
  const main = join(program.directory, 'dist/main.js')
  const command = '"$0" "$1" get "$2" - >/dev/full'
  const child = spawn('sh', ['-c', command, process.execPath, main, id], {
    env: { ...process.env, BAGFS_URL: service.url, BAGFS_TOKEN: TOKEN },
  })
  const [said, ended] = await Promise.all([text(child.stderr), once(child, 'close')])
  expect(said).toMatch(/^bagfs: The local disk is full: writing the result\.$/m)
  expect(said).not.toContain('bug')
  expect(ended).toEqual([6, null])
})

test('an empty file goes there and back', async () => {
  const id = await put('empty.txt', '')
  await expect(bagfs('get', id, '-')).resolves.toMatchObject({ exitCode: 0, stdout: '' })
})

test('put takes a name and a description', async () => {
  await writeFile(join(cwd, 'a.txt'), 'named')
  const { stdout } = await bagfs('put', 'a.txt', '--name', 'ünï 名.txt', '--description', 'why not')
  const listed = await bagfs('ls', '--json')
  expect(JSON.parse(listed.stdout)).toContainEqual(
    expect.objectContaining({
      name: 'ünï 名.txt',
      description: 'why not',
      bag_id: stdout.trim(),
    }),
  )
})

test.each([
  ['a file', 'folder/torn.bin', 1, 'changed while it was to be uploaded.'],
  ['a folder', 'folder', 7, 'changed while the folder was being packed.'],
])('put of %s that is written over in place stores nothing of it', async (_, what, code, words) => {
  await mkdir(join(cwd, 'folder'))
  const path = join(cwd, 'folder', 'torn.bin')
  await writeFile(path, Buffer.alloc(16 * 1024 * 1024))
  const file = await open(path, 'r+')
  const timer = setInterval(() => {
    writeSync(file.fd, 'new', 0)
  }, 2)
  try {
    const { exitCode, stdout, stderr } = await bagfs('put', what)
    expect({ exitCode, stdout }).toEqual({ exitCode: code, stdout: '' })
    expect(stderr).toContain(words)
  } finally {
    clearInterval(timer)
    await file.close()
  }
})

test('put of something that is not there sends nothing of the rest', async () => {
  await writeFile(join(cwd, 'there.txt'), 'there')
  const { exitCode, stderr } = await bagfs('put', 'there.txt', 'not-there.txt')
  expect(exitCode).toBe(4)
  expect(stderr).toContain('not-there.txt')
  expect((await bagfs('ls')).stdout).not.toContain('there.txt')
})

test('get by name takes the newest and says that there are more', async () => {
  await put('twice.txt', 'old')
  await put('twice.txt', 'new')
  const { stdout, stderr } = await bagfs('get', 'twice.txt', '-')
  expect(stdout).toBe('new')
  expect(stderr).toContain('2 bags')
})

test('get replaces a file that was named, and no other', async () => {
  await put('mine.txt', 'from the service')
  await writeFile(join(cwd, 'mine.txt'), 'mine')
  await mkdir(join(cwd, 'directory'))
  await writeFile(join(cwd, 'directory/mine.txt'), 'mine too')
  await expect(bagfs('get', 'mine.txt')).resolves.toMatchObject({ exitCode: 1 })
  await expect(bagfs('get', 'mine.txt', 'directory')).resolves.toMatchObject({ exitCode: 1 })
  expect(await readFile(join(cwd, 'mine.txt'), 'utf8')).toBe('mine')
  expect(await readFile(join(cwd, 'directory/mine.txt'), 'utf8')).toBe('mine too')
  await expect(bagfs('get', 'mine.txt', 'mine.txt')).resolves.toMatchObject({ exitCode: 0 })
  expect(await readFile(join(cwd, 'mine.txt'), 'utf8')).toBe('from the service')
})

test('get leaves nothing but the bag in its directory', async () => {
  await put('alone.txt', 'alone')
  await mkdir(join(cwd, 'target'))
  await bagfs('get', 'alone.txt', 'target')
  const { readdir } = await import('node:fs/promises')
  expect(await readdir(join(cwd, 'target'))).toEqual(['alone.txt'])
})

test('get to a directory that does not exist is not found', async () => {
  await put('nowhere.txt', 'x')
  await expect(bagfs('get', 'nowhere.txt', 'no/x')).resolves.toMatchObject({ exitCode: 4 })
  await expect(bagfs('get', 'nowhere.txt', 'no/')).resolves.toMatchObject({ exitCode: 4 })
})

test('a bag that is listed and gone has exit code 4', async () => {
  extraRecords = [record('ghost.txt', 'f'.repeat(64))]
  await expect(bagfs('get', 'ghost.txt')).resolves.toMatchObject({ exitCode: 4 })
})

test('a reader of stdout that leaves early is no error', async () => {
  const id = await put('long.bin', Buffer.alloc(5_000_000))
  const child = program.start(['get', id, '-'], {
    cwd,
    variables: { BAGFS_URL: service.url, BAGFS_TOKEN: TOKEN },
  })
  const said: string[] = []
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk.toString()))
  await once(child.stdout, 'data')
  child.stdout.destroy()
  const [exitCode] = (await once(child, 'close')) as [number]
  expect({ exitCode, said }).toEqual({ exitCode: 0, said: [] })
})

test('a reader of stderr that leaves early ends nothing half way', async () => {
  const folder = join(cwd, 'sockets')
  await mkdir(folder)
  await writeFile(join(folder, 'a.txt'), 'a')
  const sockets = await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      const server = createServer().listen(join(folder, String(i)))
      await once(server, 'listening')
      return server
    }),
  )
  const child = program.start(['put', 'sockets'], {
    cwd,
    variables: { BAGFS_URL: service.url, BAGFS_TOKEN: TOKEN, TMPDIR: cwd },
  })
  child.stderr.destroy()
  expect(await firstLine(child)).toMatch(ID)
  await once(child, 'close')
  for (const server of sockets) server.close()
  expect(child.exitCode).toBe(0)
  // The zip of the folder was in TMPDIR.
  expect(await readdir(cwd)).toEqual(['sockets'])
})

test('a folder goes there and back with modes, times, links and empty directories', async () => {
  const folder = join(cwd, 'folder')
  await mkdir(join(folder, 'empty'), { recursive: true })
  await mkdir(join(folder, 'bin'))
  await writeFile(join(folder, 'bin/run.sh'), '#!/bin/sh\n')
  await chmod(join(folder, 'bin/run.sh'), 0o755)
  await writeFile(join(folder, 'text.txt'), 'text '.repeat(1000))
  await utimes(join(folder, 'text.txt'), 1_600_000_000, 1_600_000_000)
  await symlink('bin/run.sh', join(folder, 'link'))
  const { stdout: id } = await bagfs('put', 'folder')
  await mkdir(join(cwd, 'out'))
  await expect(bagfs('get', id.trim(), 'out')).resolves.toMatchObject({ exitCode: 0 })
  const { execFileSync } = await import('node:child_process')
  const show = (directory: string): string =>
    execFileSync('find', ['.', '-mindepth', '1', '-printf', '%P %M %y %l %Ts\\n'], {
      cwd: directory,
      encoding: 'utf8',
    })
      .split('\n')
      // Times of links and of directories are those of their making.
      .map((line) => (/ [ld] /.test(line) ? line.replace(/ \d+$/, '') : line))
      .sort()
      .join('\n')
  expect(show(join(cwd, 'out/folder'))).toBe(show(folder))
  expect(await readFile(join(cwd, 'out/folder/text.txt'), 'utf8')).toBe('text '.repeat(1000))
  await expect(bagfs('get', id.trim(), 'out')).resolves.toMatchObject({ exitCode: 1 })
})

test('get of a folder with a file that cannot be read gives the others, and ends with 1', async () => {
  const entries = ['good', 'bad', 'fine'].map((name) => ({ name, content: name }))
  const broken = entries.map((entry) => (entry.name === 'bad' ? { ...entry, crc: 1 } : entry))
  const id = await put('damaged', rawZip(broken))
  const { exitCode, stdout, stderr } = await bagfs('get', id, 'out')
  expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: `${join(cwd, 'out')}\n` })
  expect(stderr).toContain('bagfs: left out bad: ')
  expect(stderr).toContain('One file of the folder could not be read.')
  expect(await readdir(join(cwd, 'out'))).toEqual(['fine', 'good'])
})

test('get --zip and get to stdout give a folder as it is stored', async () => {
  await mkdir(join(cwd, 'zipped'))
  await writeFile(join(cwd, 'zipped/a.txt'), 'a')
  const { stdout: id } = await bagfs('put', 'zipped')
  await bagfs('get', id.trim(), 'zipped.zip', '--zip')
  expect((await readFile(join(cwd, 'zipped.zip'))).subarray(0, 2).toString()).toBe('PK')
  expect((await bagfs('get', id.trim(), '-')).stdout.slice(0, 2)).toBe('PK')
})

test('ls shows names with control characters safely, in a table and as JSON', async () => {
  const name = 'a\u001b[31mb\nc\u202ed\u009b'
  extraRecords = [record(name, 'e'.repeat(64))]
  const table = await bagfs('ls')
  expect(table.stdout).toContain('a\\x1b[31mb\\x0ac\\u{202e}d\\x9b')
  const json = await bagfs('ls', '--json')
  expect(json.stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
  expect(JSON.parse(json.stdout)).toContainEqual(expect.objectContaining({ name }))
})

test('rm of a name with several bags deletes nothing and lists their ids', async () => {
  const older = await put('several.txt', '1')
  const newer = await put('several.txt', '2')
  const refused = await bagfs('rm', 'several.txt')
  expect(refused.exitCode).toBe(2)
  expect(refused.stderr).toContain(older)
  expect(refused.stderr).toContain(newer)
  await expect(bagfs('rm', older)).resolves.toMatchObject({ exitCode: 0, stdout: `${older}\n` })
  const { stdout } = await bagfs('rm', '--all', 'several.txt')
  expect(stdout).toBe(`${newer}\n`)
  await expect(bagfs('rm', 'several.txt')).resolves.toMatchObject({ exitCode: 4 })
})

test('rm with one wrong name among several deletes nothing', async () => {
  const id = await put('keep.txt', 'keep')
  await expect(bagfs('rm', 'keep.txt', 'wrong.txt')).resolves.toMatchObject({ exitCode: 4 })
  await expect(bagfs('get', id, '-')).resolves.toMatchObject({ stdout: 'keep' })
})

test('import adds a known bag, and an unknown one is not found', async () => {
  const id = await put('imported.txt', 'imported')
  await expect(bagfs('import', id)).resolves.toMatchObject({ exitCode: 0, stdout: `${id}\n` })
  await expect(bagfs('import', '0'.repeat(64))).resolves.toMatchObject({ exitCode: 4 })
})

test('df shows the account for people and for programs', async () => {
  await put('little.txt', 'little')
  const { stdout } = await bagfs('df', '--json')
  const account = JSON.parse(stdout) as Record<string, number>
  expect(account['capacity']).toBe(1e9)
  expect(account['used']).toBe(1e9 - (account['space_left'] ?? 0))
  const words = (await bagfs('df')).stdout
  expect(words).toContain('capacity  1.0 GB')
  expect(words).toMatch(/used .* \(under 1 %\)/)
})

describe('serve', () => {
  test('makes a token once, prints its URL, keeps its bags, and ends on SIGTERM', async () => {
    const ids: string[] = []
    await writeFile(join(cwd, 'kept.txt'), 'kept')
    for (const round of [1, 2]) {
      const child = program.start(['serve', '--data', 'served', '--port', '0'], { cwd })
      const url = await firstLine(child)
      const access = ['--url', url, '--token-file', 'served/token']
      if (round === 1)
        ids.push((await program.run(['put', 'kept.txt', ...access], { cwd })).stdout.trim())
      const got = await program.run(['get', 'kept.txt', '-', ...access], { cwd })
      expect(got).toMatchObject({ exitCode: 0, stdout: 'kept' })
      child.kill('SIGTERM')
      await expect(once(child, 'close')).resolves.toEqual([0, null])
    }
    expect((await stat(join(cwd, 'served/token'))).mode & 0o777).toBe(0o600)
    expect(await readFile(join(cwd, 'served/token'), 'utf8')).toMatch(/^[0-9a-f]{64}\n$/)
    expect(ids[0]).toMatch(ID)
  })

  test('one data directory is served by one process', async () => {
    const first = program.start(['serve', '--data', 'once', '--port', '0'], { cwd })
    await firstLine(first)
    const second = await program.run(['serve', '--data', 'once', '--port', '0'], { cwd })
    expect(second.exitCode).toBe(7)
    first.kill('SIGINT')
    await expect(once(first, 'close')).resolves.toEqual([0, null])
  })

  test('an upload beyond the capacity has exit code 6', async () => {
    const args = ['serve', '--data', 'small', '--port', '0', '--capacity', '1kB']
    const child = program.start(args, { cwd })
    const access = ['--url', await firstLine(child), '--token-file', 'small/token']
    await writeFile(join(cwd, 'large.bin'), Buffer.alloc(2000))
    const { exitCode, stderr } = await program.run(['put', 'large.bin', ...access], { cwd })
    child.kill('SIGINT')
    await once(child, 'close')
    expect({ exitCode, stderr }).toMatchObject({ exitCode: 6 })
  })
})

function record(filename: string, bag_id: string): FileRecordWire {
  return { filename, size: 1, uploaded_at: 1_700_000_000, description: '', bag_id }
}

test('all of a long listing arrives, also at a reader who is late', async () => {
  const count = 3_000
  extraRecords = Array.from({ length: count }, (_, index) => ({
    filename: `a file with the number ${index}`,
    size: 1,
    uploaded_at: 1_700_000_000,
    description: '',
    bag_id: index.toString(16).padStart(64, '0'),
  }))
  const child = program.start(['ls', '--json'], {
    variables: { BAGFS_URL: service.url, BAGFS_TOKEN: TOKEN },
  })
  // The pipe holds 64 KiB: the rest waits in the program until the pipe is read.
  await once(child.stdout, 'readable')
  const text: Buffer[] = []
  for await (const chunk of child.stdout) text.push(chunk as Buffer)
  const records = JSON.parse(Buffer.concat(text).toString()) as { bag_id: string }[]
  const ids = new Set(records.map(({ bag_id: id }) => id))
  expect(extraRecords.filter(({ bag_id: id }) => !ids.has(id))).toEqual([])
})

test.each([
  ['ls', '--url', `https://${TOKEN}@example.org`],
  ['ls', '--url', TOKEN],
  ['ls', '--url', 'http://127.0.0.1:1', '--token-file', TOKEN],
  ['ls', `--token=${TOKEN}`],
  ['ls', TOKEN],
  ['serve', '--data', 'd', '--token-file', TOKEN],
  ['serve', '--data', 'd', '--port', TOKEN],
])('a token at the wrong place is not repeated: %s %s', async (...args) => {
  const { exitCode, stdout, stderr } = await bagfs(...args)
  expect(exitCode).toBe(2)
  expect(stderr).toMatch(/^bagfs: /)
  expect(stdout + stderr).not.toContain(TOKEN)
})

test('where too few files may be open, one sentence says so', async () => {
  const main = join(program.directory, 'dist/main.js')
  const command = 'ulimit -n 25; exec "$@"'
  const child = spawn('bash', ['-c', command, 'bash', process.execPath, main, 'status'])
  const said: Buffer[] = []
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk))
  const [exitCode] = (await once(child, 'close')) as [number | null]
  expect(Buffer.concat(said).toString()).toBe(
    'bagfs: Too few files may be open at the same time.\n  Raise the limit: ulimit -n 1024\n',
  )
  expect(exitCode).toBe(1)
})

test('serve says what it means that other machines can reach it', async () => {
  const file = join(cwd, 'served-token')
  await writeFile(file, TOKEN, { mode: 0o600 })
  const args = ['serve', '--data', join(cwd, 'open'), '--port', '0', '--token-file', file]
  const child = program.start([...args, '--host', '0.0.0.0'], { cwd })
  const said: Buffer[] = []
  child.stderr.on('data', (chunk: Buffer) => said.push(chunk))
  await firstLine(child)
  child.kill('SIGTERM')
  await once(child, 'close')
  expect(Buffer.concat(said).toString()).toMatch(
    /^bagfs: warning: 0\.0\.0\.0 can be reached from other machines, and nothing is encrypted/,
  )
})
