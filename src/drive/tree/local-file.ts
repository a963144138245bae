import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { DriveError, fromFileSystem } from '../../domain/errors.ts'
import type { Source } from './source.ts'

/** A finished file on the local disk. */
export class LocalFile implements Source {
  readonly fd: number
  #closed = false

  constructor(path: string) {
    this.fd = openSync(path, 'r')
  }

  length(): Promise<number> {
    return Promise.resolve(fstatSync(this.fd).size)
  }

  read(buffer: Uint8Array, position: number): Promise<number> {
    return Promise.resolve(this.readNow(buffer, position))
  }

  readNow(buffer: Uint8Array, position: number): number {
    if (this.#closed) throw new DriveError('bad-handle', 'This file is closed.')
    try {
      return readSync(this.fd, buffer, 0, buffer.length, position)
    } catch (error) {
      throw fromFileSystem(error, 'Content on this machine cannot be read')
    }
  }

  close(): void {
    if (this.#closed) return
    this.#closed = true
    closeSync(this.fd)
  }
}
