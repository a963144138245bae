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

/** One thing that a mount needs of this machine. */
export interface FuseRequirement {
  /** Such as `/dev/fuse`. */
  readonly name: string
  /** Tells what there is; rejects with what is missing, and the Debian package or setting that mends it (`usage`, `not-permitted`). */
  readonly require: () => Promise<string>
}

/** Checks that FUSE can be used. Rejects as the first requirement that is not met. */
export async function checkFuse(wanted: FuseRequirements): Promise<void> {
  for (const { require } of listFuseRequirements(wanted)) await require()
}

/** What a mount needs, in the order in which it is missed. */
export function listFuseRequirements(wanted: FuseRequirements): readonly FuseRequirement[] {
  const { bridge, isRoot, searchPath } = wanted
  if (process.platform !== 'linux') return bridge === 'dev-fuse' ? [ONLY_LINUX] : []
  const program = (...programs: readonly string[]): FuseRequirement => ({
    name: programs[0] ?? '',
    require: () => requireProgram(programs, searchPath),
  })
  const ofBridge =
    bridge === 'fuse-native'
      ? [program('fusermount'), LIBFUSE]
      : isRoot
        ? []
        : [program('fusermount3', 'fusermount')]
  return [
    { name: DEVICE, require: requireDevice },
    ...ofBridge,
    ...(wanted.allowOther && !isRoot ? [ALLOW_OTHER] : []),
  ]
}

const LIBFUSE: FuseRequirement = {
  name: 'libfuse.so.2',
  require: () => requireLibrary('libfuse.so.2'),
}
const ALLOW_OTHER: FuseRequirement = { name: 'user_allow_other', require: requireAllowOther }
const ONLY_LINUX: FuseRequirement = {
  name: 'system',
  require: () => Promise.reject(noDevFuse()),
}

function noDevFuse(): DriveError {
  return new DriveError('usage', '--bridge dev-fuse is for Linux.', {
    hint: 'Leave the option out.',
  })
}

async function requireDevice(): Promise<string> {
  if (!(await exists(DEVICE))) {
    throw new DriveError('usage', `This machine has no ${DEVICE}.`, {
      hint: `Try: sudo modprobe fuse. In a container, start it with --device ${DEVICE} --cap-add SYS_ADMIN.`,
    })
  }
  // fusermount opens it with the rights of its caller.
  if (await exists(DEVICE, constants.R_OK | constants.W_OK)) return 'can be opened'
  throw new DriveError('not-permitted', `You may not open ${DEVICE}.`, {
    hint: `Most machines let everybody: sudo chmod 666 ${DEVICE}. Or mount as root.`,
  })
}

/** One of these will do; the first is the one to install. */
async function requireProgram(programs: readonly string[], searchPath: string): Promise<string> {
  const directories = searchPath.split(delimiter).filter((directory) => directory !== '')
  for (const program of programs) {
    for (const directory of directories) {
      const path = join(directory, program)
      if (await exists(path, constants.X_OK)) return path
    }
  }
  throw new DriveError('usage', `The program ${programs[0] ?? ''} is missing.`, {
    hint: 'On Debian and Ubuntu: sudo apt-get install fuse3',
  })
}

async function requireLibrary(library: string): Promise<string> {
  const known = await listLibraries()
  if (known === undefined) return 'not looked for: this system has no list of its libraries'
  if (known.includes(`${library} `)) return 'installed'
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

async function requireAllowOther(): Promise<string> {
  const conf = (await exists(FUSE_CONF)) ? await readFile(FUSE_CONF, 'utf8') : ''
  if (conf.split('\n').some((line) => line.trim() === 'user_allow_other')) {
    return `set in ${FUSE_CONF}`
  }
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
