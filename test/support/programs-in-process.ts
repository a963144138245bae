import { toBagId, type HandleId } from '../../src/domain/ids.ts'
import { DriveInProcess, serviceOf, type DriveHome, type DriveLimits } from './drive-in-process.ts'
import type { Programs } from './hostile-run.ts'

/** Programs of a drive without a kernel in between, in mode through. */
export class ProgramsInProcess implements Programs {
  readonly #home: DriveHome
  #drive: DriveInProcess

  private constructor(home: DriveHome, drive: DriveInProcess) {
    this.#home = home
    this.#drive = drive
  }

  static async start(
    { url, token }: { readonly url: string; readonly token: string },
    dir: string,
    limits?: DriveLimits,
  ): Promise<Programs> {
    const home = { url, token, dir, writeBack: false, ...(limits && { limits }) }
    return new ProgramsInProcess(home, await DriveInProcess.open(home))
  }

  async names(): Promise<readonly string[]> {
    await this.#drive.listing.refreshNow().catch(() => undefined)
    return this.#drive.names()
  }

  async room(): Promise<void> {
    if ((await this.#drive.drive.space.report()) === undefined) throw new Error('It is not known.')
  }

  read(path: string): Promise<string> {
    return this.#drive.read(path)
  }

  async write(path: string, content: string): Promise<void> {
    await this.#put(await this.#create(path), content, 0)
  }

  append(path: string, content: string): Promise<void> {
    return this.#drive.append(path, content)
  }

  rename(from: string, to: string): Promise<void> {
    return this.#drive.rename(from, to)
  }

  async remove(path: string): Promise<void> {
    const { parent, name } = await this.#drive.parent(path)
    await this.#drive.drive.unlink(parent, name)
  }

  makeDirectory(path: string): Promise<void> {
    return this.#drive.makeDirectory(path)
  }

  async importBag(bagId: string): Promise<void> {
    const service = serviceOf(this.#home)
    try {
      await service.addById(toBagId(bagId))
    } finally {
      await service.close()
    }
  }

  async send(): Promise<void> {
    await this.#drive.drain()
  }

  async again(): Promise<void> {
    await this.#drive.drop()
    this.#drive = await DriveInProcess.open(this.#home)
  }

  async end(): Promise<void> {
    await this.#drive.drop()
  }

  async #create(path: string): Promise<HandleId> {
    const { parent, name } = await this.#drive.parent(path)
    try {
      const node = await this.#drive.node(path)
      return await this.#drive.drive.open(node, { writable: true, truncate: true })
    } catch {
      return (await this.#drive.drive.create(parent, name, 0o644)).handle
    }
  }

  async #put(handle: HandleId, content: string, position: number): Promise<void> {
    const { drive } = this.#drive
    try {
      await drive.write(handle, Buffer.from(content), position)
      await drive.flush(handle)
    } finally {
      await drive.release(handle)
    }
  }
}
