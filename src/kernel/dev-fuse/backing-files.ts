import { DriveError } from '../../domain/errors.ts'
import type { Libc } from './libc.ts'

/** Files of the local disk that the kernel knows by ids, and reads by itself. */
export interface BackingFiles {
  /** The errno by which the kernel refuses all of them; undefined when it takes some. */
  refusal(): string | undefined
  /** The id of an open file, which may be closed then; or the errno by which the kernel refuses it. */
  add(fd: number): { readonly id: number } | { readonly refusal: string }
  /** No further file is opened with this id; those that are open go on. */
  remove(id: number): void
}

/** Backing files of the mount that a descriptor of /dev/fuse belongs to. */
export class DeviceBackingFiles implements BackingFiles {
  readonly #libc: Libc
  readonly #device: number

  constructor(libc: Libc, device: number) {
    this.#libc = libc
    this.#device = device
  }

  /** The kernel looks at the privilege first, and at the descriptor then: there is none such. */
  refusal(): string | undefined {
    const answer = this.add(-1)
    if ('id' in answer) throw new DriveError('invalid', 'The kernel took a file that is none.')
    return answer.refusal === 'EBADF' ? undefined : answer.refusal
  }

  add(fd: number): { readonly id: number } | { readonly refusal: string } {
    return this.#libc.openBacking(this.#device, fd)
  }

  remove(id: number): void {
    this.#libc.closeBacking(this.#device, id)
  }
}
