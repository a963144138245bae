import { mkdtempSync, rmSync } from 'node:fs'
import { open, readdir, readFile, type FileHandle } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Open } from 'unzipper'
import { startFaultProxy, type FaultProxy } from './fault-proxy.ts'
import { MountedDrive, TestService } from './mounted-drive.ts'

export type Who = 'A' | 'B'

const SETTINGS = [
  ...['--listing-ttl', '300ms', '--listing-lag', '500ms', '--folder-settle', '200ms'],
  ...['--log-level', 'info'],
]

/** A drive of the account with a state directory and a way to the service of its own. */
export class Machine {
  readonly who: Who
  readonly #dirs: { readonly mountpoint: string; readonly stateDir: string }
  readonly #token: string
  readonly #proxy: FaultProxy
  readonly #args: readonly string[]
  #drive: MountedDrive | undefined

  constructor(who: Who, dir: string, token: string, proxy: FaultProxy, args: readonly string[]) {
    this.who = who
    this.#dirs = { mountpoint: join(dir, 'drive'), stateDir: join(dir, 'state') }
    this.#token = token
    this.#proxy = proxy
    this.#args = args
  }

  get path(): string {
    return this.#dirs.mountpoint
  }

  async mount(): Promise<void> {
    const service = { url: this.#proxy.url, token: this.#token }
    const args = [...SETTINGS, ...this.#args]
    this.#drive = await MountedDrive.mount(service, this.#dirs, args)
  }

  async leave(): Promise<void> {
    await this.#drive?.leave()
  }

  async kill(): Promise<void> {
    await this.#drive?.kill()
  }

  async close(): Promise<void> {
    await this.kill()
    await this.#proxy.close()
  }

  /** Listings that it has asked for so far; undefined while one is on its way. */
  listings(): number | undefined {
    const asked = this.#proxy.requests.filter(({ path }) => path.endsWith('/files_list'))
    return asked.every(({ isOver }) => isOver) ? asked.length : undefined
  }

  /** Contents of all files whose path begins so, in order of content: second names count as names. */
  async contents(prefix: string): Promise<readonly string[]> {
    const names = await readdir(this.path)
    const found = names.filter((name) => name.startsWith(prefix))
    const contents = await Promise.all(found.map((name) => contentsBelow(join(this.path, name))))
    return contents.flat().sort()
  }

  open(file: string, flags: string): Promise<FileHandle> {
    return open(join(this.path, file), flags)
  }
}

async function contentsBelow(path: string): Promise<readonly string[]> {
  try {
    return [await readFile(path, 'utf8')]
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EISDIR') throw error
  }
  const names = await readdir(path)
  return (await Promise.all(names.map((name) => contentsBelow(join(path, name))))).flat()
}

/** Two machines that share one account: A closes through, B back. */
export class TwoDrives {
  readonly #dir: string
  readonly #service: TestService
  readonly #machines: Readonly<Record<Who, Machine>>
  /** Files of each bag, by its id: bags never change. */
  readonly #bags = new Map<string, readonly string[]>()

  private constructor(dir: string, service: TestService, machines: Record<Who, Machine>) {
    this.#dir = dir
    this.#service = service
    this.#machines = machines
  }

  static async start(): Promise<TwoDrives> {
    const dir = mkdtempSync(join(tmpdir(), 'bagfs-two-'))
    const service = await TestService.start(join(dir, 'service'))
    const machine = async (who: Who, ...args: readonly string[]): Promise<Machine> => {
      const proxy = await startFaultProxy(service.local.url)
      const made = new Machine(who, join(dir, who), service.token, proxy, args)
      await made.mount()
      return made
    }
    const machines = { A: await machine('A'), B: await machine('B', '--write-back') }
    return new TwoDrives(dir, service, machines)
  }

  machine(who: Who): Machine {
    return this.#machines[who]
  }

  async close(): Promise<void> {
    for (const machine of Object.values(this.#machines)) await machine.close()
    await this.#service.close()
    rmSync(this.#dir, { recursive: true, force: true })
  }

  /** Contents of the account, as `Machine.contents` has them of a drive. */
  async stored(prefix: string): Promise<readonly string[]> {
    const records = await this.#service.list()
    const found = records.filter(({ filename }) => filename.startsWith(prefix))
    return (await Promise.all(found.map(({ bag_id }) => this.#files(bag_id)))).flat().sort()
  }

  async #files(bagId: string): Promise<readonly string[]> {
    const known = this.#bags.get(bagId)
    if (known !== undefined) return known
    const files = await filesIn(await this.#service.content(bagId))
    this.#bags.set(bagId, files)
    return files
  }
}

/** A zip is a folder here: no file of a run begins as one. */
async function filesIn(content: Buffer): Promise<readonly string[]> {
  if (content.toString('latin1', 0, 2) !== 'PK') return [content.toString()]
  const { files } = await Open.buffer(content)
  const inside = files.filter(({ type }) => type === 'File')
  return Promise.all(inside.map(async (file) => (await file.buffer()).toString()))
}
