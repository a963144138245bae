import { readdir, readlink } from 'node:fs/promises'
import { ifThere } from '../disk/if-there.ts'

const DESCRIPTORS = '/proc/self/fd'
const DEVICE = '/dev/fuse'

/**
 * The descriptor by which this process answers the kernel. The FUSE library closes it silently when
 * the kernel has ended the connection. `umount -f` does that also where programs use the mount,
 * which then stays.
 */
export class FuseDevice {
  readonly #path: string

  private constructor(path: string) {
    this.#path = path
  }

  /** To be called once it is mounted; undefined where descriptors cannot be looked at. */
  static async find(): Promise<FuseDevice | undefined> {
    for (const name of (await ifThere(readdir(DESCRIPTORS))) ?? []) {
      const device = new FuseDevice(`${DESCRIPTORS}/${name}`)
      if (await device.isOpen()) return device
    }
    return undefined
  }

  async isOpen(): Promise<boolean> {
    return (await ifThere(readlink(this.#path))) === DEVICE
  }
}
