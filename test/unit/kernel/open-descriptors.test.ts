import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { listMounts } from '../../../src/disk/find-mount.ts'
import { systemClock } from '../../../src/domain/clock.ts'
import { OpenDescriptors } from '../../../src/kernel/open-descriptors.ts'

let directory: string
let path: string
let shell: ChildProcess | undefined

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'bagfs-descriptors-'))
  path = join(directory, 'file')
  writeFileSync(path, 'content')
})

afterEach(async () => {
  if (shell?.exitCode === null) {
    shell.kill('SIGKILL')
    await once(shell, 'exit')
  }
  shell = undefined
  rmSync(directory, { recursive: true })
})

/** Has one shell run a command; resolves when it did. */
async function tell(command: string): Promise<void> {
  shell ??= spawn('bash', { stdio: ['pipe', 'pipe', 'inherit'] })
  const { stdin, stdout } = shell
  if (stdin === null || stdout === null) throw new Error('The shell has no pipes.')
  stdin.write(`${command}; echo done\n`)
  await once(stdout, 'data')
}

/** Where the file system of a path is mounted. */
async function mountpointOf(place: string): Promise<string> {
  const mounts = (await listMounts()).map(({ mountpoint }) => mountpoint)
  const above = mounts.filter((each) => `${place}/`.startsWith(each === '/' ? each : `${each}/`))
  return above.reduce((longest, each) => (each.length >= longest.length ? each : longest), '/')
}

describe.each([
  { how: 'by its inode', hasInodes: true },
  { how: 'by its path, where the kernel tells no inodes', hasInodes: false },
])('a file that is known $how', ({ hasInodes }) => {
  async function makeLook(): Promise<() => Promise<boolean>> {
    const descriptors = new OpenDescriptors({ clock: systemClock, hasInodes })
    const mountpoint = await mountpointOf(directory)
    const file = { mountpoint, path, inode: statSync(path).ino }
    return () => descriptors.isHeldForWriting(file)
  }

  test('a process that has the file open for writing holds it', async () => {
    await tell(`exec 5>> ${path}`)
    expect(await (await makeLook())()).toBe(true)
  })

  test('a process that only reads the file does not hold it for writing', async () => {
    await tell(`exec 5< ${path}`)
    expect(await (await makeLook())()).toBe(false)
  })

  test('a process that held nothing a moment ago is seen when it opens the file', async () => {
    await tell('true')
    const look = await makeLook()
    expect(await look()).toBe(false)
    await tell(`exec 5>> ${path}`)
    expect(await look()).toBe(true)
  })

  test('a process that held a file once is read anew each time', async () => {
    await tell(`exec 5>> ${path}`)
    const look = await makeLook()
    expect(await look()).toBe(true)
    await tell('exec 5>&-; exec 5> /dev/null')
    expect(await look()).toBe(false)
    // As many descriptors as before, but another file.
    await tell(`exec 5>&-; exec 5>> ${path}`)
    expect(await look()).toBe(true)
  })

  test('another file is not taken for it', async () => {
    await tell(`exec 5>> ${path}.other`)
    expect(await (await makeLook())()).toBe(false)
  })
})

describe('an open file whose opening is known', () => {
  /** Opens the file in the shell, with what was known before; answers a look that ends when the shell closes one. */
  async function makeLook(): Promise<() => Promise<boolean>> {
    await tell('true')
    const descriptors = new OpenDescriptors({ clock: systemClock })
    const mountpoint = await mountpointOf(directory)
    const file = { mountpoint, path, inode: statSync(path).ino }
    const pid = shell?.pid ?? 0
    const opening = descriptors.opened(pid)
    await tell(`exec 5>> ${path}`)
    return () => descriptors.isHeldForWriting(file, { opening, closer: pid })
  }

  test('is held by the process that opened it', async () => {
    expect(await (await makeLook())()).toBe(true)
  })

  test('is held by a process that was started since, also when the first one has closed it', async () => {
    const look = await makeLook()
    await tell('sleep 60 & exec 5>&-')
    expect(await look()).toBe(true)
    await tell('kill %1; wait 2> /dev/null')
    expect(await look()).toBe(false)
  })

  test('is not looked for in processes that were there before', async () => {
    const other = spawn('bash', ['-c', `exec 5>> ${path}; echo; read`], { stdio: 'pipe' })
    try {
      await once(other.stdout, 'data')
      const look = await makeLook()
      await tell('exec 5>&-')
      expect(await look()).toBe(false)
    } finally {
      other.kill()
      await once(other, 'exit')
    }
  })

  test('is looked for everywhere when the process that opened it is not known', async () => {
    const descriptors = new OpenDescriptors({ clock: systemClock })
    await tell(`exec 5>> ${path}`)
    const mountpoint = await mountpointOf(directory)
    const file = { mountpoint, path, inode: statSync(path).ino }
    const opening = descriptors.opened(0)
    expect(await descriptors.isHeldForWriting(file, { opening, closer: 0 })).toBe(true)
  })
})
