import PQueue from 'p-queue'
import { findMount } from '../disk/find-mount.ts'
import { DriveError } from '../domain/errors.ts'
import type { NodeId } from '../domain/ids.ts'
import type { Logger } from '../domain/logger.ts'
import type { Drive } from '../drive/drive.ts'
import { FuseDevice } from './fuse-device.ts'
import type { Paths } from './paths.ts'

interface PartingDeps {
  readonly drive: Drive
  readonly paths: Paths
  readonly log: Logger
  /** Absolute path of the mount. */
  readonly mountpoint: string
}

/**
 * Open files whose name is to mean another machine's version. libfuse 2 has one inode for all
 * versions of a path. The kernel would cut what is read of the old one at the size of the new one.
 * So the old one is first renamed in the kernel, as libfuse itself does with an open file that is
 * replaced. Then the name gets an inode of its own. Nothing of this reaches the service.
 */
export class Parting {
  readonly #deps: PartingDeps
  /** Paths that open files are to get; removed when the rename has ended. */
  readonly #expected = new Map<string, NodeId>()
  /** Paths that open files have got; removed when they are closed. */
  readonly #parted = new Map<string, NodeId>()
  /** One at a time: the kernel lets a rename wait for reads that are under way. */
  readonly #queue = new PQueue({ concurrency: 1 })
  #count = 0

  constructor(deps: PartingDeps) {
    this.#deps = deps
    deps.drive.onParting((node, name) => {
      this.#ask(node, name)
    })
  }

  /** Takes a rename that this asked for; false for all others. */
  async take(from: string, to: string): Promise<boolean> {
    const node = this.#expected.get(to)
    if (node === undefined) return false
    const { drive, paths } = this.#deps
    if ((await paths.node(from)) !== node) throw new DriveError('stale', 'It is another file now.')
    paths.hide(to, node)
    this.#parted.set(to, node)
    drive.parted(node)
    return true
  }

  /** To be called when a file was closed. */
  forgetClosed(): void {
    for (const [path, node] of this.#parted) {
      if (this.#deps.drive.isOpen(node)) continue
      this.#parted.delete(path)
      this.#deps.paths.forget(path)
    }
  }

  #ask(node: NodeId, name: string): void {
    const { drive, paths, log, mountpoint } = this.#deps
    this.#count += 1
    const to = paths.hiddenPath(node, this.#count)
    this.#expected.set(to, node)
    this.#queue
      .add(() => this.#rename(`${mountpoint}/${name}`, mountpoint + to))
      .catch((error: unknown) => {
        // The old version can still be written; its readers may be cut short.
        log.warn({ name, error: String(error) }, 'An open file keeps its name in the kernel.')
        drive.parted(node)
      })
      .finally(() => this.#expected.delete(to))
  }

  /**
   * In another process: a thread of this one that waits for its own answer would outlive a kill, and hold the mount
   * open for ever. When the mount is gone, its path leads to what lies below: that is not to be touched.
   */
  async #rename(from: string, to: string): Promise<void> {
    const mount = await findMount(this.#deps.mountpoint)
    if (mount?.type !== 'fuse.bagfs') {
      throw new DriveError('stale', 'The mount is gone.')
    }
    const device = await FuseDevice.find()
    if (device === undefined) throw new DriveError('stale', 'The kernel has ended the connection.')
    await device.runWithout('mv', ['-f', '--', from, to])
  }
}
