import type { WholeFile } from '../../domain/whole-file.ts'

/** Content that can be read, wherever it lies. */
export interface Source {
  /** True length in bytes; may wait for the head of a download. */
  length(signal?: AbortSignal): Promise<number>
  /** Bytes read into `buffer` from `position`; fewer than asked only at the end, 0 there. */
  read(buffer: Uint8Array, position: number, signal?: AbortSignal): Promise<number>
  /** The same at once when the bytes are on the local disk, else undefined. */
  readNow(buffer: Uint8Array, position: number): number | undefined
  /** Its reader may have bytes of it from an earlier one: it must not go on with others. */
  noteKept?(): void
  /** All of it as it is on the local disk, where that is so. */
  wholeFile?(): WholeFile | undefined
  /** A file of the local disk that is just this, with its holes: open until `close`. Undefined where there is none now. */
  readonly fd?: number | undefined
  close(): void
}
