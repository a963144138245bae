import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { open, readdir, readlink } from 'node:fs/promises'
import { ifThere } from '../disk/if-there.ts'

const DESCRIPTORS = '/proc/self/fd'
const DEVICE = '/dev/fuse'
/** Of stdin, stdout and stderr. */
const STANDARD = 3

/**
 * The descriptor by which this process answers the kernel. The FUSE library closes it silently when
 * the kernel has ended the connection. `umount -f` does that also where programs use the mount,
 * which then stays.
 */
export class FuseDevice {
  readonly #descriptor: number

  private constructor(descriptor: number) {
    this.#descriptor = descriptor
  }

  /** To be called once it is mounted; undefined where descriptors cannot be looked at. */
  static async find(): Promise<FuseDevice | undefined> {
    for (const name of (await ifThere(readdir(DESCRIPTORS))) ?? []) {
      const device = new FuseDevice(Number(name))
      if (await device.isOpen()) return device
    }
    return undefined
  }

  async isOpen(): Promise<boolean> {
    return (await ifThere(readlink(`${DESCRIPTORS}/${this.#descriptor}`))) === DEVICE
  }

  /**
   * Runs a program that does not inherit it; rejects with what the program said when it fails. The kernel ends the
   * connection when no process holds the device any more: a program that held it while it waits for this process would
   * keep all programs waiting after a kill of this process.
   */
  async runWithout(program: string, args: readonly string[]): Promise<void> {
    const nothing = await open('/dev/null')
    try {
      const between = Array<'ignore'>(this.#descriptor - STANDARD).fill('ignore')
      const child = spawn(program, args, {
        stdio: ['ignore', 'ignore', 'pipe', ...between, nothing.fd],
      })
      const said: string[] = []
      child.stderr?.on('data', (chunk: Buffer) => said.push(chunk.toString()))
      const [code] = (await once(child, 'close')) as [number | null]
      if (code !== 0) throw new Error(`${program} failed (${code}): ${said.join('').trimEnd()}`)
    } finally {
      await nothing.close()
    }
  }
}
