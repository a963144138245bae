import {
  chownSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  realpathSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { execa } from 'execa'
import ts from 'typescript'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { canActAsOther, canMount } from '../support/fuse.ts'
import { placesIn } from '../support/places.ts'
import { Bench, HANGING_MS, type Outcome } from '../support/mounted-drive.ts'
import { letOthersPass, OTHER_UID } from '../support/other-user.ts'
import { PackedProgram } from '../support/packed.ts'
import { TOKEN } from '../support/service-process.ts'

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }

let packed: PackedProgram
/** Of a global install by root, or the user that runs the tests. */
let prefix = ''

beforeAll(async () => {
  packed = await PackedProgram.make()
  prefix = join(packed.dir, 'prefix')
  await packed.install(prefix)
})

afterAll(() => {
  packed.remove()
})

describe('the packed program', () => {
  it('holds what is needed, and no more', async () => {
    const paths = await packed.list()
    const kinds = [
      /^(?:package\.json|README\.md|LICENSE|CHANGELOG\.md|dist\/LICENSES\.txt)$/,
      /^dist\/[\w-]+\.js$/,
      /^dist\/man\/(?:bagfs(?:-[a-z]+)?\.1|mount\.bagfs\.8)$/,
      /^dist\/completions\/(?:bagfs|_bagfs|bagfs\.fish)$/,
      /^dist\/page\/(?:index\.html|page\.css|page\.js|icon\.svg)$/,
      /^dist\/types\/[\w/-]+\.d\.ts$/,
    ]
    expect(paths.filter((path) => !kinds.some((kind) => kind.test(path)))).toEqual([])
    for (const kind of kinds) expect(paths.filter((path) => kind.test(path))).not.toEqual([])
    expect(paths.filter((path) => path.startsWith('dist/completions/'))).toHaveLength(3)
  })

  it('is installed with its manual pages, which man finds by PATH alone', async () => {
    const env = { PATH: `${join(prefix, 'bin')}:${process.env['PATH'] ?? ''}`, MANPATH: '' }
    const { stdout } = await execa('man', ['--where', 'bagfs-mount'], { env })
    // It is a link there, and man follows it.
    expect(stdout).toBe(realpathSync(join(prefix, 'share/man/man1/bagfs-mount.1')))
  })
})

/** The environment of a person who has just installed it, and whose account is a bench's. */
const variables = (bench: Bench): Readonly<Record<string, string>> => ({
  PATH: `${join(prefix, 'bin')}:${process.env['PATH'] ?? ''}`,
  HOME: bench.dir,
  ...placesIn(bench.dir),
  BAGFS_URL: bench.service.proxy.url,
  BAGFS_TOKEN: TOKEN,
  BAGFS_MIN_FREE: '1MB',
})

/** Runs a program with nothing else of our environment. */
async function run(
  bench: Bench,
  command: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  const result = await execa(command, args, {
    cwd: bench.dir,
    timeout: HANGING_MS,
    killSignal: 'SIGKILL',
    reject: false,
    extendEnv: false,
    stdin: 'ignore',
    env: { ...variables(bench), ...env },
  })
  return { code: result.exitCode, stdout: result.stdout, stderr: result.stderr }
}

describe.runIf(canMount())('a global install', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
  })
  afterEach(() => bench.close())

  it('mounts for the user that installed it', async () => {
    expect((await run(bench, 'bagfs', ['--version'])).stdout).toBe(version)
    const mounted = await run(bench, 'bagfs', ['mount', bench.mountpoint])
    expect(mounted).toMatchObject({ code: 0 })
    // Not by a call that this thread waits in: it is the service, too.
    await writeFile(join(bench.mountpoint, 'a.txt'), 'content')
    expect(await run(bench, 'bagfs', ['umount', bench.mountpoint])).toMatchObject({ code: 0 })
    expect(await bench.service.contents()).toEqual({ 'a.txt': 'content' })
  })

  it.runIf(canActAsOther())(
    'mounts for a user without any rights, by a prefix of his own',
    async () => {
      letOthersPass(bench.dir)
      letOthersPass(packed.dir)
      const home = join(bench.dir, 'home')
      mkdirSync(home, { mode: 0o700 })
      chownSync(home, OTHER_UID, OTHER_UID)
      const own = join(home, '.local')
      await packed.install(own, { uid: OTHER_UID, home })
      const drive = join(home, 'drive')
      const as = `setpriv --reuid=${OTHER_UID} --regid=${OTHER_UID} --clear-groups env -i HOME=${home} XDG_RUNTIME_DIR=${home} PATH=${own}/bin:${process.env['PATH'] ?? ''} BAGFS_URL=${bench.service.proxy.url} BAGFS_TOKEN=${TOKEN} BAGFS_MIN_FREE=1MB`
      // Most machines let all users open the device; on this one only the script sees it so.
      const script = `trap 'umount -ql ${drive} || true' EXIT
      mknod -m 666 ${bench.dir}/fuse c 10 229; mount --bind ${bench.dir}/fuse /dev/fuse
      ${as} mkdir ${drive}
      ${as} bagfs mount ${drive}
      ${as} sh -c 'echo mine > ${drive}/b.txt; stat -c %u ${drive}/b.txt'
      ${as} bagfs umount ${drive}`
      const args = ['-m', '--propagation', 'private', 'bash', '-ec', script]
      expect(await run(bench, 'unshare', args)).toMatchObject({
        code: 0,
        stdout: String(OTHER_UID),
      })
      expect(await bench.service.contents()).toEqual({ 'b.txt': 'mine\n' })
    },
  )

  it('serves the steps of docs/INSTALL.md for a layout as packages of Debian have it', async () => {
    const [, steps = ''] =
      /```sh debian\n(.*?)```/s.exec(readFileSync('docs/INSTALL.md', 'utf8')) ?? []
    const root = join(bench.dir, 'root')
    const env = {
      DESTDIR: root,
      TARBALL: packed.tarball,
      ...packed.offline,
    }
    const outcome = await run(bench, 'sh', ['-euxc', steps], env)
    expect(outcome, outcome.stderr).toMatchObject({ code: 0 })
    for (const path of [
      'sbin/mount.bagfs',
      'usr/share/man/man1/bagfs.1.gz',
      'usr/lib/systemd/user/bagfs@.service',
    ]) {
      expect(readdirSync(join(root, path, '..'))).toContain(path.split('/').at(-1))
    }
    const program = join(root, 'usr/bin/bagfs')
    expect((await run(bench, program, ['--version'])).stdout).toBe(version)
    const verified = await run(bench, 'systemd-analyze', [
      'verify',
      '--user',
      '--man=no',
      '--recursive-errors=no',
      join(root, 'usr/lib/systemd/user/bagfs@.service'),
    ])
    expect(verified.stderr).not.toMatch(/Unknown|Failed to parse|Invalid/)
    // After a kill the directory has a dead mount on it, at which mkdir fails.
    expect(steps).toContain('\nExecStartPre=-/usr/bin/mkdir -p')
  })
})

describe.runIf(canMount())('the examples of docs/examples, on the packed program', () => {
  let bench: Bench
  beforeEach(async () => {
    bench = await Bench.start()
    mkdirSync(join(bench.dir, 'node_modules'))
    symlinkSync(join(prefix, 'lib/node_modules/bagfs'), join(bench.dir, 'node_modules/bagfs'))
    writeFileSync(join(bench.dir, 'package.json'), '{"type":"module"}')
    for (const name of readdirSync('docs/examples')) {
      const source = join('docs/examples', name)
      copyFileSync(source, join(bench.dir, name))
      const { outputText } = ts.transpileModule(readFileSync(source, 'utf8'), {
        compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext },
      })
      writeFileSync(join(bench.dir, name.replace(/\.ts$/, '.js')), outputText)
    }
  })
  afterEach(() => bench.close())

  it('have the types of the package, under the strictest settings', async () => {
    const names = readdirSync('docs/examples')
    expect(names.sort()).toEqual(['mount.ts', 'transfer.ts'])
    const settings = [
      '--noEmit',
      '--strict',
      '--exactOptionalPropertyTypes',
      '--module',
      'nodenext',
      '--target',
      'es2023',
    ]
    const node = ['--types', 'node', '--typeRoots', resolve('node_modules/@types')]
    const tsc = resolve('node_modules/typescript/bin/tsc')
    const outcome = await run(bench, process.execPath, [
      tsc,
      ...settings,
      ...node,
      '--ignoreConfig',
      ...names,
    ])
    expect(outcome).toEqual({ code: 0, stdout: '', stderr: '' })
  })

  it('list, upload and download with streams', async () => {
    const path = join(bench.dir, 'report.bin')
    const content = Buffer.alloc(3_000_000, 'bagfs')
    writeFileSync(path, content)
    await bench.service.upload('other.txt', 'other')
    const outcome = await run(bench, process.execPath, ['transfer.js', path, `${path}.copy`])
    expect(outcome, outcome.stderr).toMatchObject({ code: 0 })
    const lines = outcome.stdout.split('\n')
    expect(lines).toEqual(
      expect.arrayContaining([
        'other.txt  5',
        'report.bin  3000000',
        'It begins with 62616766.',
        'It is gone.',
      ]),
    )
    expect(readFileSync(`${path}.copy`).equals(content)).toBe(true)
    expect(await bench.service.contents()).toEqual({ 'other.txt': 'other' })
  })

  it('mount, write, sync and unmount', async () => {
    const outcome = await run(bench, process.execPath, ['mount.js', bench.mountpoint])
    expect(outcome, outcome.stderr).toEqual({
      code: 0,
      stdout:
        'hello.txt\nHello, drive.\n\n0 changes wait.\nUnmounted; 0 changes are kept for the next mount.',
      stderr: '',
    })
    expect(await bench.service.contents()).toEqual({ 'hello.txt': 'Hello, drive.\n' })
  })

  it('read its own drive while other programs start, and say what keeps it from being unmounted', async () => {
    writeFileSync(join(bench.dir, 'holder.js'), HOLDER)
    // Where it hangs, not even a kill ends the process before that.
    const limit = setTimeout(() => {
      spawn('umount', ['-f', '-l', bench.mountpoint], { stdio: 'ignore' })
    }, HANGING_MS / 2)
    try {
      const outcome = await run(bench, process.execPath, ['holder.js', bench.mountpoint])
      const refused = `busy: Close ${bench.mountpoint}/a.txt in it first.`
      expect(outcome, outcome.stderr).toMatchObject({
        code: 0,
        stdout: ['started', refused, refused, 'content', '0 kept'].join('\n'),
      })
    } finally {
      clearTimeout(limit)
    }
  })

  it.runIf(canActAsOther())(
    'tell a program that takes every thread from its own drive what to do',
    async () => {
      writeFileSync(join(bench.dir, 'greedy.js'), GREEDY)
      const child = spawn(process.execPath, ['greedy.js', bench.mountpoint], {
        cwd: bench.dir,
        stdio: ['ignore', 'ignore', 'pipe'],
        env: {
          ...variables(bench),
          UV_THREADPOOL_SIZE: '1',
        },
      })
      const ended = once(child, 'exit')
      let said = ''
      child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
      try {
        await expect.poll(() => said).toContain('UV_THREADPOOL_SIZE=64')
      } finally {
        // Only this ends its calls; until then, not even a kill ends the process.
        await run(bench, 'umount', ['-f', bench.mountpoint])
        await run(bench, 'umount', ['-l', bench.mountpoint])
        if (child.exitCode === null) child.kill('SIGKILL')
        await ended
      }
    },
  )
})

/** Its own files are open: one that it reads while another program starts, one that it writes. */
const HOLDER = `
import { execFile } from 'node:child_process'
import { open, readFile, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { mount } from 'bagfs'
const { BAGFS_URL: url, BAGFS_TOKEN: token } = process.env
const drive = await mount({ url, token, mountpoint: process.argv[2], minFree: '1MB' })
const path = drive.mountpoint + '/a.txt'
const refused = ({ code, facts }) => console.log(code + ': ' + facts.hint)
await writeFile(path, 'content')
const reader = await open(path, 'r')
await promisify(execFile)('true')
console.log('started')
await drive.unmount().catch(refused)
await reader.close()
const writer = await open(path, 'r+')
await drive.unmount({ now: true }).catch(refused)
await writer.close()
console.log(await readFile(path, 'utf8'))
console.log((await drive.unmount()).kept + ' kept')
`

/** With one thread, the write waits for the drive, and the drive for a thread. */
const GREEDY = `
import { writeFile } from 'node:fs/promises'
import { mount } from 'bagfs'
const { BAGFS_URL: url, BAGFS_TOKEN: token } = process.env
const { mountpoint } = await mount({ url, token, mountpoint: process.argv[2], minFree: '1MB' })
await writeFile(mountpoint + '/a.txt', 'content')
`
