import { createHash } from 'node:crypto'
import { lstat, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { systemClock } from '../domain/clock.ts'
import { fromFileSystem, systemErrorCode } from '../domain/errors.ts'
import { isThere, readJsonIfThere } from '../disk/if-there.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'
import { makePrivateDirectory } from '../disk/private-dir.ts'

/** How a person named it when it was mounted; drives of earlier versions, and of other programs, do not tell. */
const mountedAs = {
  profile: z.exactOptional(z.string()),
  /** The options of `bagfs mount` that were typed. */
  options: z.exactOptional(z.array(z.string())),
}

const runningDrive = z.object({
  mountpoint: z.string(),
  socketPath: z.string(),
  pid: z.number(),
  /** State directory of the account. */
  stateDir: z.exactOptional(z.string()),
  ...mountedAs,
})

/** Where a running drive answers. */
export type RunningDrive = z.infer<typeof runningDrive>

/** A drive that left is kept in mind, for where its changes and its trash are. */
const formerDrive = z.object({
  mountpoint: z.string(),
  stateDir: z.string(),
  leftAtMs: z.number(),
  ...mountedAs,
})
export type FormerDrive = z.infer<typeof formerDrive>

/**
 * The drives of a user, so that a command finds the one it is about: one that runs by its mountpoint in
 * `<dir>/<hash>.json`, one that left by its state directory in `<dir>/left-<hash>.json`.
 */
export class DriveRegistry {
  readonly #dirs: readonly string[]

  /** A drive is written into the first that takes it, and found in all. */
  constructor(dirs: readonly string[]) {
    this.#dirs = dirs
  }

  /** One state directory has one drive: another that is known to have the same one is dead, and its socket is this one's. */
  async add(drive: RunningDrive): Promise<void> {
    for (const known of await this.list()) {
      if (known.mountpoint === drive.mountpoint) await this.leave(known.mountpoint)
      else if (known.stateDir !== undefined && known.stateDir === drive.stateDir) {
        await this.#remove(fileOfRunning(known.mountpoint))
      }
    }
    await this.#forgetFormers(drive.stateDir)
    await this.#write(fileOfRunning(drive.mountpoint), drive)
  }

  /** What left that state directory, and what left one that was deleted. */
  async #forgetFormers(inUse: string | undefined): Promise<void> {
    for (const { stateDir } of await this.listFormer()) {
      if (stateDir !== inUse && (await isThere(stateDir))) continue
      await this.#remove(fileOfFormer(stateDir))
    }
  }

  /** Undefined when no drive is known there, or its file cannot be read. */
  async find(mountpoint: string): Promise<RunningDrive | undefined> {
    return (await this.list()).find((drive) => drive.mountpoint === mountpoint)
  }

  /** All that are known, by mountpoint; those whose process died may be among them. */
  async list(): Promise<readonly RunningDrive[]> {
    const all = await this.#read(/^[0-9a-f]+\.json$/, runningDrive)
    const first = new Map([...all].reverse().map((drive) => [drive.mountpoint, drive]))
    return [...first.values()].sort((a, b) => (a.mountpoint < b.mountpoint ? -1 : 1))
  }

  /** Those that left, of a mountpoint or of all; the last one first. */
  async listFormer(mountpoint?: string): Promise<readonly FormerDrive[]> {
    const all = await this.#read(/^left-[0-9a-f]+\.json$/, formerDrive)
    return all
      .filter((drive) => drive.mountpoint === (mountpoint ?? drive.mountpoint))
      .sort((a, b) => b.leftAtMs - a.leftAtMs)
  }

  /** Notes that a drive leaves; one that took over its mountpoint stays. */
  async leaveOwn({ mountpoint, pid }: Pick<RunningDrive, 'mountpoint' | 'pid'>): Promise<void> {
    if ((await this.find(mountpoint))?.pid === pid) await this.leave(mountpoint)
  }

  /** Notes that the drive of a mountpoint is not mounted any more. */
  async leave(mountpoint: string): Promise<void> {
    const { stateDir, profile, options } = (await this.find(mountpoint)) ?? {}
    await this.#remove(fileOfRunning(mountpoint))
    if (stateDir === undefined) return
    const former: FormerDrive = {
      ...{ mountpoint, stateDir, leftAtMs: systemClock.now() },
      ...(profile === undefined ? {} : { profile }),
      ...(options === undefined ? {} : { options }),
    }
    await this.#write(fileOfFormer(stateDir), former)
  }

  /** The files that may tell of the drive that runs at a mountpoint. */
  pathsOf(mountpoint: string): readonly string[] {
    return this.#dirs.map((dir) => join(dir, fileOfRunning(mountpoint)))
  }

  async #remove(file: string): Promise<void> {
    for (const dir of this.#dirs) await rm(join(dir, file), { force: true })
  }

  async #write(file: string, drive: RunningDrive | FormerDrive): Promise<void> {
    const failures: unknown[] = []
    for (const dir of this.#dirs) {
      const path = join(dir, file)
      try {
        await makePrivateDirectory(dir)
        await writeFileAtomic(path, JSON.stringify(drive), { durable: false })
        return
      } catch (error) {
        failures.push(fromFileSystem(error, `Writing ${path}`))
      }
    }
    throw failures[0]
  }

  async #read<Drive>(names: RegExp, schema: z.ZodType<Drive>): Promise<readonly Drive[]> {
    const found: Drive[] = []
    for (const dir of this.#dirs) {
      for (const name of await readOwnDirectory(dir)) {
        if (!names.test(name)) continue
        const drive = schema.safeParse(await readJsonIfThere(join(dir, name))).data
        if (drive !== undefined) found.push(drive)
      }
    }
    return found
  }
}

function fileOfRunning(mountpoint: string): string {
  return `${hashOf(mountpoint)}.json`
}

function fileOfFormer(stateDir: string): string {
  return `left-${hashOf(stateDir)}.json`
}

function hashOf(path: string): string {
  return createHash('sha256').update(path).digest('hex').slice(0, 16)
}

/** Nothing is believed that another user may have written; what this user may not look into is not of this user. */
async function readOwnDirectory(dir: string): Promise<readonly string[]> {
  try {
    const stat = await lstat(dir)
    const isOwn = stat.uid === 0 || stat.uid === process.getuid?.()
    return isOwn ? await readdir(dir) : []
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'EACCES'].includes(systemErrorCode(error) ?? '')) return []
    throw fromFileSystem(error, `Looking into ${dir}`)
  }
}
