import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { V8_ARGUMENTS } from '../../src/mount/tune-v8.ts'
import { systemClock } from '../../src/domain/clock.ts'
import type { BagId } from '../../src/domain/ids.ts'
import { silentLogger } from '../../src/domain/logger.ts'
import type { StorageService } from '../../src/service/storage-service.ts'
import { createHttpService } from '../../src/service/http-service.ts'
import { until, type Processes, type Running } from './processes.ts'
import { readWhole } from './read-whole.ts'
import type { Mount, MountOptions, SeedFile, Subject } from './subject.ts'

const MAIN = join(import.meta.dirname, '../../src/main.js')
const PAUSE_PROBE = pathToFileURL(join(import.meta.dirname, 'pause-probe.js')).href
const LARGE_LISTING = join(import.meta.dirname, 'large-listing.js')
const TOKEN = 'bench-token-0123456789'
const SEEDING_AT_ONCE = 4

export interface Places {
  /** On tmpfs. */
  readonly memory: string
  /** On the disk. */
  readonly disk: string
}

interface Settings {
  readonly name: string
  readonly writeBack: boolean
  /** Records that the listing holds besides the seeded files; they have no content. */
  readonly extraRecords?: number
  /** Where a mount keeps the longest pause of its event loop (pause-probe.ts). */
  readonly pausesTo?: string
  /** Further arguments of `bagfs mount`. */
  readonly options?: readonly string[]
}

/** This drive on the embedded service, each in a process of its own. */
export class BagfsSubject implements Subject {
  readonly name: string
  readonly #processes: Processes
  readonly #places: Places
  readonly #settings: Settings
  readonly #tokenFile: string
  readonly #dataDir: string
  readonly #bags = new Map<string, BagId>()
  #server: Running | undefined
  #service: StorageService | undefined
  #url = ''
  #stateDir: string

  private constructor(processes: Processes, places: Places, settings: Settings) {
    this.name = settings.name
    this.#processes = processes
    this.#places = places
    this.#settings = settings
    this.#dataDir = mkdtempSync(join(places.memory, 'bagfs-service-'))
    this.#tokenFile = join(this.#dataDir, 'token')
    this.#stateDir = this.#newStateDir()
    writeFileSync(this.#tokenFile, TOKEN, { mode: 0o600 })
  }

  static async start(
    processes: Processes,
    places: Places,
    settings: Settings,
    files: readonly SeedFile[],
  ): Promise<BagfsSubject> {
    const subject = new BagfsSubject(processes, places, settings)
    await subject.#serve()
    await subject.#seed(files)
    return subject
  }

  async mount(options: MountOptions = {}): Promise<Mount> {
    if (options.keepsState !== true) {
      rmSync(this.#stateDir, { recursive: true, force: true })
      this.#stateDir = this.#newStateDir()
    }
    const path = mkdtempSync(join(this.#places.disk, 'bagfs-drive-'))
    const profile = process.env['BENCH_PROFILE']
    const { pausesTo } = this.#settings
    const args = [
      // As a background mount runs.
      ...V8_ARGUMENTS,
      ...(profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]),
      ...(pausesTo === undefined ? [] : [`--import=${PAUSE_PROBE}?to=${pausesTo}`]),
      ...[MAIN, 'mount', path, '--foreground', '--url', options.url ?? this.#url],
      ...['--token-file', this.#tokenFile, '--state-dir', this.#stateDir],
      ...(this.#settings.writeBack ? ['--write-back'] : []),
      ...(this.#settings.options ?? []),
    ]
    return this.#processes.mount(process.execPath, args, path)
  }

  /** Gets a seeded folder's zip into the cache, for mounts that keep the state. */
  async fillCache(name: string, url = this.#url): Promise<void> {
    const mount = await this.mount({ url })
    try {
      const bagId = await this.listedBag(name)
      if (bagId === undefined) throw new Error(`The server has no ${name}.`)
      await readWhole(join(mount.path, '.bags', bagId))
      await readdir(join(mount.path, name))
    } finally {
      await mount.leave()
    }
  }

  /** The zips stay in the cache, what was taken out of them goes; only while nothing is mounted. */
  forgetInflated(): void {
    for (const account of readdirSync(this.#stateDir, { withFileTypes: true })) {
      if (!account.isDirectory()) continue
      rmSync(join(this.#stateDir, account.name, 'inflated'), { recursive: true, force: true })
    }
  }

  curl(name: string, base = this.#url): readonly string[] {
    const { url, authorization } = this.address(name)
    return ['-H', `Authorization: ${authorization}`, url.replace(this.#url, base)]
  }

  /** Where a seeded file is got, and with which header. */
  address(name: string): { readonly url: string; readonly authorization: string } {
    const bagId = this.#bags.get(name)
    if (bagId === undefined) throw new Error(`There is no bag of ${name}.`)
    return { url: `${this.#url}/api/bag/download/${bagId}`, authorization: `Bearer ${TOKEN}` }
  }

  /** Arguments with which curl uploads a zip as a folder, to `url`. */
  curlUpload(path: string, name: string, url = this.#url): readonly string[] {
    const form = ['-F', 'description=', '-F', `file=@${path};filename=${name}`]
    const header = ['-H', `Authorization: Bearer ${TOKEN}`]
    return [...header, ...form, `${url}/api/folders/upload`]
  }

  /** Where the server listens. */
  get port(): number {
    return Number(new URL(this.#url).port)
  }

  /** The bag that a name stands for now; undefined when the server has none. */
  async listedBag(name: string): Promise<BagId | undefined> {
    const records = (await this.#service?.listFiles()) ?? []
    return records.find((record) => record.name === name)?.bagId
  }

  /** Sends a zip as a folder, as the drive's own client does, and as nothing else goes on; answers its bag. */
  async sendAlone(path: string, name: string): Promise<BagId> {
    const { size: length } = statSync(path)
    const bagId = await this.#service?.uploadFolder({ path, length, name, description: '' })
    if (bagId === undefined) throw new Error('The server is not started.')
    return bagId
  }

  /** A change that another machine makes. */
  async add(file: SeedFile): Promise<void> {
    await this.#seed([file])
  }

  async remove(bagId: BagId): Promise<void> {
    await this.#service?.deleteBag(bagId)
  }

  async has(files: readonly { readonly name: string; readonly size: number }[]): Promise<boolean> {
    const records = (await this.#service?.listFiles()) ?? []
    const sizes = new Map(records.map((record) => [record.name, record.size]))
    return files.every(({ name, size }) => (sizes.get(name) ?? -1) >= size)
  }

  async close(): Promise<void> {
    await this.#service?.close()
    if (this.#server !== undefined) await this.#processes.stop(this.#server)
    rmSync(this.#dataDir, { recursive: true, force: true })
    rmSync(this.#stateDir, { recursive: true, force: true })
  }

  #newStateDir(): string {
    return mkdtempSync(join(this.#places.disk, 'bagfs-state-'))
  }

  async #serve(): Promise<void> {
    const { extraRecords } = this.#settings
    const data = join(this.#dataDir, 'data')
    mkdirSync(data)
    const args =
      extraRecords === undefined
        ? [MAIN, 'serve', '--data', data, '--port', '0', '--token-file', this.#tokenFile]
        : [LARGE_LISTING, data, TOKEN, String(extraRecords)]
    if (extraRecords === undefined) args.push('--capacity', '8GB')
    const server = this.#processes.start(process.execPath, args)
    this.#server = server
    const url = (): string | undefined => /http:\/\/[\d.]+:\d+/.exec(server.output())?.[0]
    await until(() => url() !== undefined, server, 10)
    this.#url = url() ?? ''
    const deps = { log: silentLogger, clock: systemClock }
    this.#service = createHttpService(deps, { baseUrl: this.#url, token: TOKEN })
  }

  async #seed(files: readonly SeedFile[]): Promise<void> {
    const left = files.values()
    const upload = async (): Promise<void> => {
      for (const { name, path, isFolder } of left) {
        const source = { path, length: statSync(path).size, name, description: '' }
        const bagId = await (isFolder === true
          ? this.#service?.uploadFolder(source)
          : this.#service?.uploadFile(source))
        if (bagId !== undefined) this.#bags.set(name, bagId)
      }
    }
    await Promise.all(Array.from({ length: SEEDING_AT_ONCE }, upload))
  }
}
