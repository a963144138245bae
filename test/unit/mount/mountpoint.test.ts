import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { accessSync, constants } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { checkMountpoint } from '../../../src/mount/mountpoint.ts'
import { parseMountinfo } from '../../../src/disk/mountinfo.ts'

let directory = ''

beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), 'bagfs-mountpoint-')))
})
afterEach(() => rm(directory, { recursive: true }))

const check = (path: string, ownDirectories: readonly string[] = []): Promise<string> =>
  checkMountpoint({ path, ownDirectories, timeoutMs: 5000 })

test('an empty directory will do, and its path is without symlinks', async () => {
  await mkdir(join(directory, 'real'))
  await symlink('real', join(directory, 'link'))
  await expect(check(join(directory, 'link'))).resolves.toBe(join(directory, 'real'))
})

test('a path that is missing, a file, or not empty is a usage error', async () => {
  await writeFile(join(directory, 'file'), '')
  await expect(check(join(directory, 'missing'))).rejects.toMatchObject({
    code: 'usage',
    facts: { hint: expect.stringContaining('mkdir') as string },
  })
  await expect(check(join(directory, 'file'))).rejects.toMatchObject({ code: 'usage' })
  await expect(check(join(directory, 'file/below'))).rejects.toMatchObject({ code: 'usage' })
  await expect(check(directory)).rejects.toThrow('not empty')
})

test('a drive neither hides the directories of bagfs nor lies in them', async () => {
  const mountpoint = join(directory, 'drive')
  await mkdir(mountpoint)
  await expect(check(mountpoint, [join(mountpoint, 'state')])).rejects.toThrow('would hide')
  await expect(check(mountpoint, [mountpoint])).rejects.toThrow('would hide')
  await expect(check(mountpoint, [directory])).rejects.toThrow('lies in')
  await expect(check(mountpoint, [`${mountpoint}-state`])).resolves.toBe(mountpoint)
})

/** Runs before what another process does, until the test ends. */
async function beginsWith(program: string): Promise<void> {
  const path = join(directory, 'begin.cjs')
  await writeFile(path, program)
  vi.stubEnv('NODE_OPTIONS', `--require ${path}`)
  onTestFinished(() => {
    vi.unstubAllEnvs()
  })
}

test('what may hang is looked at however long the machine takes to start the process that looks', async () => {
  await beginsWith('Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1500)')
  await symlink('/proc', join(directory, 'link'))
  const path = join(directory, 'link')
  const looked = checkMountpoint({ path, ownDirectories: [], timeoutMs: 1000 })
  await expect(looked).rejects.toThrow('proc (proc)')
})

test('a directory on a disk of this machine is looked at without another process', async () => {
  await beginsWith('process.exit(1)')
  await mkdir(join(directory, 'real'))
  await symlink(join(directory, 'other'), join(directory, 'link'))
  await symlink('./real/../real', join(directory, 'other'))
  await symlink('loop', join(directory, 'loop'))
  await expect(check(join(directory, 'link'))).resolves.toBe(join(directory, 'real'))
  await expect(check(join(directory, 'loop'))).rejects.toThrow('ELOOP')
  await expect(check('/proc')).rejects.toThrow('Looking at /proc failed')
})

test('a directory with a file system on it is busy, and the file system is named', async () => {
  await expect(check('/proc')).rejects.toMatchObject({ code: 'busy' })
  await expect(check('/proc')).rejects.toThrow(/proc \(proc\)/)
})

test("names in the kernel's table of mounts are decoded", () => {
  const line =
    '36 35 98:0 /mnt1 /mnt/a\\040b\\134c rw,noatime master:1 - fuse.sshfs me@host:/x\\011y rw'
  expect(parseMountinfo(`${line}\n`)).toEqual([
    {
      id: 36,
      device: '98:0',
      mountpoint: '/mnt/a b\\c',
      type: 'fuse.sshfs',
      source: 'me@host:/x\ty',
    },
  ])
})

test("the user of a FUSE mount is read from the kernel's table of mounts", () => {
  const line =
    '40 35 0:50 / /mnt rw,nosuid - fuse.bagfs bagfs rw,user_id=1000,group_id=7,allow_other'
  expect(parseMountinfo(`${line}\n`)).toMatchObject([{ mountpoint: '/mnt', uid: 1000 }])
})

/** Mounts a FUSE file system that no program serves; its end makes the mount a dead one. */
const SILENT_MOUNT = `
import os, subprocess, sys, time
fd = os.open('/dev/fuse', os.O_RDWR)
options = 'fd=%d,rootmode=40000,user_id=0,group_id=0' % fd
subprocess.check_call(['mount', '-i', '-t', 'fuse', '-o', options, 'silent', sys.argv[1]], pass_fds=[fd])
print('mounted', flush=True)
sys.stdin.read()
`

function canMount(): boolean {
  try {
    accessSync('/dev/fuse', constants.R_OK | constants.W_OK)
    return process.getuid?.() === 0
  } catch (error) {
    if (error instanceof Error && 'code' in error) return false
    throw error
  }
}

describe.runIf(canMount())('with a mount that no program serves (needs root)', () => {
  test('a mount that does not answer is busy in bounded time, and so is a dead one', async () => {
    const mountpoint = join(directory, 'silent')
    await mkdir(mountpoint)
    const holder = spawn('python3', ['-c', SILENT_MOUNT, mountpoint])
    try {
      await once(holder.stdout, 'data')
      await mkdir(join(directory, 'links'))
      await symlink('../silent/below', join(directory, 'links/link'))
      for (const path of [mountpoint, join(directory, 'links/link')]) {
        const silent = checkMountpoint({ path, ownDirectories: [], timeoutMs: 300 })
        await expect(silent).rejects.toMatchObject({ code: 'busy' })
        await expect(silent).rejects.toThrow('does not answer')
      }
      holder.stdin.end()
      await once(holder, 'close')
      await expect(check(mountpoint)).rejects.toMatchObject({ code: 'busy' })
      await expect(check(mountpoint)).rejects.toThrow('dead mount')
    } finally {
      holder.kill('SIGKILL')
      execFileSync('umount', ['-l', mountpoint])
    }
  })
})
