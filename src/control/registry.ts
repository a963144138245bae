import { createHash } from 'node:crypto'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { fromFileSystem } from '../domain/errors.ts'
import { ifThere, readJsonIfThere } from '../disk/if-there.ts'
import { writeFileAtomic } from '../disk/atomic-file.ts'

const runningDrive = z.object({
  mountpoint: z.string(),
  socketPath: z.string(),
  pid: z.number(),
  /** State directory of the account. */
  stateDir: z.exactOptional(z.string()),
})

/** Where a running drive answers. */
export type RunningDrive = z.infer<typeof runningDrive>

/** Running drives by mountpoint, so that a command finds the one it is about: `<dir>/<hash>.json`. */
export class DriveRegistry {
  readonly #dir: string

  constructor(dir: string) {
    this.#dir = dir
  }

  /** One state directory has one drive: another that is known to have the same one is dead, and its socket is this one's. */
  async add(drive: RunningDrive): Promise<void> {
    for (const { mountpoint, stateDir } of await this.list()) {
      if (stateDir !== undefined && stateDir === drive.stateDir) await this.remove(mountpoint)
    }
    const path = this.pathOf(drive.mountpoint)
    try {
      await mkdir(this.#dir, { recursive: true, mode: 0o700 })
      await writeFileAtomic(path, JSON.stringify(drive), { durable: false })
    } catch (error) {
      throw fromFileSystem(error, `Writing ${path}`)
    }
  }

  /** Undefined when no drive is known there, or its file cannot be read. */
  async find(mountpoint: string): Promise<RunningDrive | undefined> {
    return this.#read(this.pathOf(mountpoint))
  }

  async #read(path: string): Promise<RunningDrive | undefined> {
    return runningDrive.safeParse(await readJsonIfThere(path)).data
  }

  /** All that are known, by mountpoint; those whose process died may be among them. */
  async list(): Promise<readonly RunningDrive[]> {
    const found: RunningDrive[] = []
    for (const name of (await ifThere(readdir(this.#dir))) ?? []) {
      const drive = name.endsWith('.json') ? await this.#read(join(this.#dir, name)) : undefined
      if (drive !== undefined) found.push(drive)
    }
    return found.sort((a, b) => (a.mountpoint < b.mountpoint ? -1 : 1))
  }

  /** Removes a drive that leaves; one that took over its mountpoint stays. */
  async removeOwn({ mountpoint, pid }: Pick<RunningDrive, 'mountpoint' | 'pid'>): Promise<void> {
    if ((await this.find(mountpoint))?.pid === pid) await this.remove(mountpoint)
  }

  async remove(mountpoint: string): Promise<void> {
    await rm(this.pathOf(mountpoint), { force: true })
  }

  /** The file that tells of the drive of a mountpoint. */
  pathOf(mountpoint: string): string {
    const hash = createHash('sha256').update(mountpoint).digest('hex').slice(0, 16)
    return join(this.#dir, `${hash}.json`)
  }
}
