import type { Logger } from '../../domain/logger.ts'

/** Something that a folder had to be stored without. */
export interface LeftOutFile {
  /** The name of the folder, as the service has it. */
  readonly folder: string
  /** In the folder; undefined for all that was not changed here, where nothing tells what that was. */
  readonly path?: string
}

/** As many as a person may want to read; the log has all. */
const MOST = 100

/** What folders were stored without, because it was nowhere any more when they were packed. */
export class LeftOut {
  readonly #log: Logger
  /** By its sentence; newest last. */
  readonly #files = new Map<string, LeftOutFile>()

  constructor({ log }: { readonly log: Logger }) {
    this.#log = log
  }

  /** Tells of each once. */
  note(files: readonly LeftOutFile[]): void {
    for (const file of files) {
      const words = describeLeftOut(file)
      if (this.#files.has(words)) continue
      this.#files.set(words, file)
      this.#log.warn({ folder: file.folder }, words)
    }
  }

  /** The last of them, oldest first. */
  list(): readonly LeftOutFile[] {
    return [...this.#files.values()].slice(-MOST)
  }
}

/** One sentence, for the user. */
export function describeLeftOut({ folder, path }: LeftOutFile): string {
  const what = path === undefined ? `what was not changed here in ${folder}` : `${folder}/${path}`
  return `${what} is left out: another machine removed the version of ${folder} that it was in`
}
