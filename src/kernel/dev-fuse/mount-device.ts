import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants as fsConstants, openSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { isAutomount } from '../../disk/find-mount.ts'
import { DriveError, fromFileSystem, systemErrorCode } from '../../domain/errors.ts'
import type { BridgeSettings } from '../bridge.ts'
import { refuseMounted } from '../refuse-mounted.ts'
import type { Libc } from './libc.ts'

const DEVICE = '/dev/fuse'
/** What `ps` and `mount` show as the source and, behind `fuse.`, as the type. */
const NAME = 'bagfs'
/** Where a program that is started has the descriptor that it is given. */
const GIVEN_FD = 3
/** env(1): there is no such program. */
const NO_SUCH_PROGRAM = 127

/**
 * Mounts, after `before` was run; answers a descriptor of the device that does not block. Rejects `usage` with what the
 * system says, and `busy` where something is mounted already, or is being mounted by another drive.
 */
export async function mountDevice(
  libc: Libc,
  settings: BridgeSettings,
  before: () => Promise<void>,
): Promise<number> {
  const place = await openMountpoint(settings)
  try {
    if (place !== undefined && !libc.lock(place)) {
      const words = `Another drive is being mounted on ${settings.mountpoint}.`
      throw new DriveError('busy', words, { hint: 'Choose another directory for one of them.' })
    }
    await refuseMounted(settings.mountpoint)
    await before()
    return await mount(libc, settings)
  } finally {
    if (place !== undefined) closeSync(place)
  }
}

/** The directory below the mount; undefined for one that its user may not read, or that waits for this mount. */
async function openMountpoint({ mountpoint }: BridgeSettings): Promise<number | undefined> {
  if (await isAutomount(mountpoint)) return undefined
  try {
    return openSync(mountpoint, fsConstants.O_RDONLY | fsConstants.O_DIRECTORY)
  } catch (error) {
    if (systemErrorCode(error) === 'EACCES') return undefined
    throw fromFileSystem(error, `${mountpoint} cannot be opened`)
  }
}

function mount(libc: Libc, settings: BridgeSettings): Promise<number> {
  return process.geteuid?.() === 0 ? mountAsRoot(settings) : mountAsUser(libc, settings)
}

function commonOptions({ readOnly, allowOther }: BridgeSettings): readonly string[] {
  return [
    readOnly ? 'ro' : 'rw',
    ...['nosuid', 'nodev', 'default_permissions'],
    ...(allowOther ? ['allow_other'] : []),
  ]
}

/**
 * mount(8) takes the descriptor along, and makes the mount by its number. The name is an option: of a type
 * `fuse.bagfs` the mount(8) of Debian 13 keeps only `fuse`. Nothing would know that mount as a drive's.
 */
async function mountAsRoot(settings: BridgeSettings): Promise<number> {
  const device = openDevice()
  try {
    const options = [
      ...[`subtype=${NAME}`, `fd=${GIVEN_FD}`, 'rootmode=40000'],
      ...[`user_id=${process.geteuid?.() ?? 0}`, `group_id=${process.getegid?.() ?? 0}`],
      ...commonOptions(settings),
    ]
    const args = ['-i', '-t', 'fuse', '-o', options.join(','), NAME, settings.mountpoint]
    const { code, words } = await run('mount', args, device)
    if (code === 0) return device
    throw cannotMount(settings, words)
  } catch (error) {
    closeSync(device)
    throw error
  }
}

function openDevice(): number {
  try {
    return openSync(DEVICE, fsConstants.O_RDWR | fsConstants.O_NONBLOCK)
  } catch (error) {
    throw fromFileSystem(error, `${DEVICE} cannot be opened`)
  }
}

/** fusermount opens the device, mounts, and sends the descriptor back through a socket. */
async function mountAsUser(libc: Libc, settings: BridgeSettings): Promise<number> {
  const [own, given] = libc.socketPair()
  try {
    // What was sent waits in the socket; it ends where nothing was.
    await runFusermount(settings, given).finally(() => {
      closeSync(given)
    })
    const device = libc.receiveDescriptor(own)
    if (device === undefined) throw cannotMount(settings, 'fusermount sent nothing')
    libc.dontBlock(device)
    return device
  } finally {
    closeSync(own)
  }
}

async function runFusermount(settings: BridgeSettings, given: number): Promise<void> {
  const options = [...commonOptions(settings), `fsname=${NAME}`, `subtype=${NAME}`].join(',')
  for (const program of ['fusermount3', 'fusermount']) {
    const command = [`_FUSE_COMMFD=${GIVEN_FD}`, program, '-o', options, '--', settings.mountpoint]
    const { code, words } = await run('env', command, given)
    if (code === 0) return
    if (code !== NO_SUCH_PROGRAM) throw cannotMount(settings, words)
  }
  throw cannotMount(settings, 'the program fusermount3 is missing')
}

async function run(
  program: string,
  args: readonly string[],
  given: number,
): Promise<{ readonly code: number | null; readonly words: string }> {
  const child = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe', given] })
  const { stderr } = child
  const words = stderr === null ? '' : text(stderr)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, words: (await words).trim() }
}

function cannotMount({ mountpoint }: BridgeSettings, why: string): DriveError {
  return new DriveError('usage', `Cannot mount on ${mountpoint}: ${why}`)
}
