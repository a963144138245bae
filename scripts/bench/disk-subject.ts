import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Places } from './bagfs-subject.ts'
import type { Mount, SeedFile, Subject } from './subject.ts'

/** A directory of the local disk, which no drive can be faster than but by what it does not do. */
export class DiskSubject implements Subject {
  readonly name = 'plain disk'
  readonly #path: string

  constructor({ disk }: Places, files: readonly SeedFile[]) {
    this.#path = mkdtempSync(join(disk, 'plain-'))
    for (const { name, path } of files) copyFileSync(path, join(this.#path, name))
  }

  mount(): Promise<Mount> {
    const leave = (): Promise<void> => Promise.resolve()
    return Promise.resolve({ path: this.#path, pid: process.pid, leave })
  }

  curl(name: string): readonly string[] {
    throw new Error(`No server has ${name}.`)
  }

  close(): Promise<void> {
    rmSync(this.#path, { recursive: true })
    return Promise.resolve()
  }
}
