import { execFile } from 'node:child_process'
import { access, constants, readFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import { DriveError, systemErrorCode } from '../domain/errors.ts'

export interface FuseRequirements {
  /** Value of `PATH`. */
  readonly searchPath: string
  readonly allowOther: boolean
  readonly isRoot: boolean
  readonly bridge: 'fuse-native' | 'dev-fuse'
}

const DEVICE = '/dev/fuse'

/** Checks on Linux that FUSE can be used, and says which Debian package or setting is missing (`usage`, `not-permitted`). */
export async function checkFuse(requirements: FuseRequirements): Promise<void> {
  if (process.platform !== 'linux') {
    refuseDevFuse(requirements)
    return
  }
  await requireDevice()
  if (requirements.bridge === 'fuse-native') {
    await requireProgram(['fusermount'], requirements.searchPath)
    await requireLibrary('libfuse.so.2')
  } else if (!requirements.isRoot) {
    await requireProgram(['fusermount3', 'fusermount'], requirements.searchPath)
  }
  if (requirements.allowOther && !requirements.isRoot) await requireAllowOther()
}

function refuseDevFuse({ bridge }: FuseRequirements): void {
  if (bridge !== 'dev-fuse') return
  throw new DriveError('usage', '--bridge dev-fuse is for Linux.', {
    hint: 'Leave the option out.',
  })
}

async function requireDevice(): Promise<void> {
  if (!(await exists(DEVICE))) {
    throw new DriveError('usage', `This machine has no ${DEVICE}.`, {
      hint: `Try: sudo modprobe fuse. In a container, start it with --device ${DEVICE} --cap-add SYS_ADMIN.`,
    })
  }
  // fusermount opens it with the rights of its caller.
  if (await exists(DEVICE, constants.R_OK | constants.W_OK)) return
  throw new DriveError('not-permitted', `You may not open ${DEVICE}.`, {
    hint: `Most machines let everybody: sudo chmod 666 ${DEVICE}. Or mount as root.`,
  })
}

/** One of these will do; the first is the one to install. */
async function requireProgram(programs: readonly string[], searchPath: string): Promise<void> {
  const directories = searchPath.split(delimiter).filter((directory) => directory !== '')
  for (const program of programs) {
    for (const directory of directories) {
      if (await exists(join(directory, program), constants.X_OK)) return
    }
  }
  throw new DriveError('usage', `The program ${programs[0] ?? ''} is missing.`, {
    hint: 'On Debian and Ubuntu: sudo apt-get install fuse3',
  })
}

async function requireLibrary(library: string): Promise<void> {
  const known = await listLibraries()
  if (known === undefined || known.includes(`${library} `)) return
  throw new DriveError('usage', `The library ${library} is missing.`, {
    hint: 'On Debian and Ubuntu: sudo apt-get install libfuse2 (libfuse2t64 on newer ones)',
  })
}

/** What the loader knows; undefined where it has no such list (musl), and loading has to find out. */
function listLibraries(): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile('/sbin/ldconfig', ['-p'], { maxBuffer: 2 ** 24 }, (error, stdout) => {
      resolve(error === null ? stdout : undefined)
    })
  })
}

const FUSE_CONF = '/etc/fuse.conf'

async function requireAllowOther(): Promise<void> {
  const conf = (await exists(FUSE_CONF)) ? await readFile(FUSE_CONF, 'utf8') : ''
  if (conf.split('\n').some((line) => line.trim() === 'user_allow_other')) return
  throw new DriveError('usage', '--allow-other is not allowed to users of this machine.', {
    hint: `Ask root to add the line user_allow_other to ${FUSE_CONF}.`,
  })
}

async function exists(path: string, mode: number = constants.F_OK): Promise<boolean> {
  try {
    await access(path, mode)
    return true
  } catch (error) {
    const code = systemErrorCode(error) ?? ''
    if (['ENOENT', 'ENOTDIR', 'EACCES'].includes(code)) return false
    throw error
  }
}
