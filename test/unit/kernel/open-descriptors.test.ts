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
