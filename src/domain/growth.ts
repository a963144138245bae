/** A file that is still being written while it is read. */
export interface Growth {
  /** Resolves when the file has this many bytes; rejects with why it never will. */
  reached(bytes: number): Promise<void>
  /** Resolves when its last bytes may be given away; rejects when they must not be. */
  released(): Promise<void>
}
