import { copyFileSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Places } from './bagfs-subject.ts'
import { until, type Processes, type Running } from './processes.ts'
import type { Mount, MountOptions, SeedFile, Subject } from './subject.ts'

/** `rclone mount --vfs-cache-mode full` on `rclone serve webdav`, with their defaults. */
export class RcloneSubject implements Subject {
  readonly name = 'rclone'
  readonly #processes: Processes
  readonly #places: Places
  readonly #dataDir: string
  readonly #port: number
  #server: Running | undefined
  #cacheDir: string

  private constructor(processes: Processes, places: Places, port: number) {
    this.#processes = processes
    this.#places = places
    this.#port = port
    this.#dataDir = mkdtempSync(join(places.memory, 'rclone-data-'))
    this.#cacheDir = this.#newCacheDir()
  }

  static async start(
    processes: Processes,
    places: Places,
    files: readonly SeedFile[],
  ): Promise<RcloneSubject> {
    const subject = new RcloneSubject(processes, places, await freePort())
    for (const { name, path } of files) copyFileSync(path, join(subject.#dataDir, name))
    await subject.#serve()
    return subject
  }

  async mount(options: MountOptions = {}): Promise<Mount> {
    if (options.keepsState !== true) {
      rmSync(this.#cacheDir, { recursive: true, force: true })
      this.#cacheDir = this.#newCacheDir()
    }
    const path = mkdtempSync(join(this.#places.disk, 'rclone-drive-'))
    const args = [
      ...['mount', ':webdav:', path, '--webdav-vendor', 'other'],
      ...['--webdav-url', options.url ?? this.#url],
      ...['--config', '/dev/null', '--cache-dir', this.#cacheDir, '--vfs-cache-mode', 'full'],
    ]
    return this.#processes.mount('rclone', args, path)
  }

  curl(name: string): readonly string[] {
    return [`${this.#url}/${encodeURIComponent(name)}`]
  }

  has(files: readonly { readonly name: string; readonly size: number }[]): Promise<boolean> {
    const isThere = ({ name, size }: { readonly name: string; readonly size: number }): boolean =>
      statSync(join(this.#dataDir, name), { throwIfNoEntry: false })?.size === size
    return Promise.resolve(files.every(isThere))
  }

  async close(): Promise<void> {
    if (this.#server !== undefined) await this.#processes.stop(this.#server)
    rmSync(this.#dataDir, { recursive: true, force: true })
    rmSync(this.#cacheDir, { recursive: true, force: true })
  }

  /** Where the server listens. */
  get port(): number {
    return this.#port
  }

  get #url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  #newCacheDir(): string {
    return mkdtempSync(join(this.#places.disk, 'rclone-cache-'))
  }

  async #serve(): Promise<void> {
    const address = `127.0.0.1:${this.#port}`
    const args = ['serve', 'webdav', this.#dataDir, '--addr', address, '--config', '/dev/null']
    const server = this.#processes.start('rclone', args)
    this.#server = server
    await until(() => /Serving on|started on/i.test(server.output()), server, 10)
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('There is no free port.')
  return address.port
}
