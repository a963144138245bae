import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { V8_ARGUMENTS } from '../../src/mount/tune-v8.ts'
import type { BareFile } from './bare-drive.ts'
import { BagfsSubject, type Places } from './bagfs-subject.ts'
import type { Processes } from './processes.ts'
import type { Mount, MountOptions, SeedFile, Subject } from './subject.ts'

const BARE_DRIVE = join(import.meta.dirname, 'bare-drive.js')

/** What fuse-native and Node can do on this machine when a drive asks as little of them as possible. */
export class BareSubject implements Subject {
  readonly name = 'bare bridge'
  readonly #processes: Processes
  readonly #places: Places
  readonly #server: BagfsSubject
  readonly #files: readonly BareFile[]
  #store: string

  private constructor(
    processes: Processes,
    places: Places,
    server: BagfsSubject,
    files: readonly SeedFile[],
  ) {
    this.#processes = processes
    this.#places = places
    this.#server = server
    this.#files = files.map(({ name, path }) => ({
      name,
      size: statSync(path).size,
      ...server.address(name),
    }))
    this.#store = this.#newStore()
  }

  static async start(
    processes: Processes,
    places: Places,
    files: readonly SeedFile[],
  ): Promise<BareSubject> {
    const settings = { name: 'server of the bare bridge', writeBack: false }
    const server = await BagfsSubject.start(processes, places, settings, files)
    return new BareSubject(processes, places, server, files)
  }

  async mount(options: MountOptions = {}): Promise<Mount> {
    if (options.keepsState === true) throw new Error('The bare bridge keeps nothing.')
    rmSync(this.#store, { recursive: true, force: true })
    this.#store = this.#newStore()
    const path = mkdtempSync(join(this.#places.disk, 'bare-drive-'))
    const contents = join(this.#store, 'contents')
    const list = join(this.#store, 'names.json')
    mkdirSync(contents)
    writeFileSync(list, JSON.stringify(this.#files))
    const args = [...V8_ARGUMENTS, BARE_DRIVE, path, contents, list]
    return this.#processes.mount(process.execPath, args, path)
  }

  curl(name: string): readonly string[] {
    return this.#server.curl(name)
  }

  async close(): Promise<void> {
    await this.#server.close()
    rmSync(this.#store, { recursive: true, force: true })
  }

  #newStore(): string {
    return mkdtempSync(join(this.#places.disk, 'bare-store-'))
  }
}
